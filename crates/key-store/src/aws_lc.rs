//! AWS-LC's reader of PKCS#12, behind safe functions. All unsafe code of the workspace is here.
#![allow(unsafe_code, reason = "calls of C; the crates that read PKCS#12 in Rust are 37 more, two of them prereleases")]

use std::ffi::{CStr, c_void};
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

use aws_lc_sys as sys;

/// Contents of a store.
pub(crate) struct Contents {
    /// Private key in DER (PKCS#8).
    pub(crate) key: Option<Vec<u8>>,
    /// Certificates in DER, in the order of the store.
    pub(crate) certificates: Vec<Vec<u8>>,
    /// Index of the certificate that belongs to the key.
    pub(crate) leaf: Option<usize>,
}

/// Reason why AWS-LC refuses a store.
pub(crate) enum OpenError {
    SeveralKeys,
    WrongPassword,
    Malformed,
    Unsupported(&'static str),
}

/// Verifies and decrypts `store`.
pub(crate) fn open(store: &[u8], password: &CStr) -> Result<Contents, OpenError> {
    let certificates = Certificates::new().ok_or(OpenError::Malformed)?;
    let mut key = ptr::null_mut();
    let mut input = MaybeUninit::uninit();
    // SAFETY: `CBS_init` initializes `input`, which borrows `store`; both outlive the call. `key` is writable, the stack
    // is valid, and `password` ends with a zero. No pointer is kept after the call.
    let is_open = unsafe {
        sys::ERR_clear_error();
        sys::CBS_init(input.as_mut_ptr(), store.as_ptr(), store.len());
        sys::PKCS12_get_key_and_certs(&raw mut key, certificates.0.as_ptr(), input.as_mut_ptr(), password.as_ptr())
    } == 1;
    // On success the key, if there is one, is ours; on failure AWS-LC has set it to null.
    let key = NonNull::new(key).map(Key);
    if !is_open {
        return Err(first_error());
    }
    let all: Option<Vec<_>> = certificates.iter().map(to_der).collect();
    let leaf = key.as_ref().and_then(|key| certificates.iter().rposition(|certificate| key.belongs_to(certificate)));
    let key = key.map(|key| key.to_pkcs8().ok_or(OpenError::Malformed)).transpose()?;
    clear_errors();
    Ok(Contents { key, certificates: all.ok_or(OpenError::Malformed)?, leaf })
}

/// Returns `store` with a new checksum for `password`; its old one is ignored.
pub(crate) fn with_checksum(store: &[u8], password: &CStr) -> Option<Vec<u8>> {
    let mut rest = store.as_ptr();
    // SAFETY: `rest` points to `store.len()` readable bytes, which the call copies.
    let store = NonNull::new(unsafe { sys::d2i_PKCS12(ptr::null_mut(), &raw mut rest, store.len()) }).map(Store)?;
    // SAFETY: the store is valid and `password` ends with a zero, as -1 demands. Null and 0 select a random salt, one
    // round and SHA-1: this copy never leaves the process.
    let is_set =
        unsafe { sys::PKCS12_set_mac(store.0.as_ptr(), password.as_ptr(), -1, ptr::null_mut(), 0, 1, ptr::null()) }
            == 1;
    clear_errors();
    if !is_set {
        return None;
    }
    // SAFETY: without a buffer, the call returns the length only.
    let length = usize::try_from(unsafe { sys::i2d_PKCS12(store.0.as_ptr(), ptr::null_mut()) }).ok()?;
    let mut bytes = vec![0; length];
    let mut end = bytes.as_mut_ptr();
    // SAFETY: `end` points to as many writable bytes as the call has just announced.
    unsafe { sys::i2d_PKCS12(store.0.as_ptr(), &raw mut end) };
    Some(bytes)
}

/// Returns the reason of the last failure: the first error that AWS-LC noted.
fn first_error() -> OpenError {
    // SAFETY: reads and empties the list of errors of this thread.
    let code = unsafe { sys::ERR_get_error() };
    clear_errors();
    match (sys::ERR_GET_LIB(code), sys::ERR_GET_REASON(code)) {
        (sys::ERR_LIB_PKCS12, sys::PKCS12_R_MAC_VERIFY_FAILURE)
        | (sys::ERR_LIB_PKCS8, sys::PKCS8_R_INCORRECT_PASSWORD | sys::PKCS8_R_INVALID_CHARACTERS) => {
            OpenError::WrongPassword
        }
        (sys::ERR_LIB_PKCS8, sys::PKCS8_R_MULTIPLE_PRIVATE_KEYS_IN_PKCS12) => OpenError::SeveralKeys,
        (sys::ERR_LIB_PKCS8, sys::PKCS8_R_MISSING_MAC) => OpenError::Unsupported("has no checksum (MAC)"),
        (sys::ERR_LIB_PKCS8, sys::PKCS8_R_PKCS12_PUBLIC_KEY_INTEGRITY_NOT_SUPPORTED) => {
            OpenError::Unsupported("is signed instead of protected by a password")
        }
        (sys::ERR_LIB_PKCS8, sys::PKCS8_R_BAD_PKCS12_DATA | sys::PKCS8_R_BAD_PKCS12_VERSION) => OpenError::Malformed,
        (sys::ERR_LIB_EVP, _) => OpenError::Unsupported("has a private key of an unsupported type"),
        (sys::ERR_LIB_PKCS8 | sys::ERR_LIB_DIGEST, _) => OpenError::Unsupported("is encrypted in an unsupported way"),
        _ => OpenError::Malformed,
    }
}

fn clear_errors() {
    // SAFETY: empties the list of errors of this thread.
    unsafe { sys::ERR_clear_error() };
}

/// Returns a certificate in DER.
fn to_der(certificate: NonNull<sys::X509>) -> Option<Vec<u8>> {
    // SAFETY: the certificate is valid; without a buffer, the call returns the length only.
    let length = usize::try_from(unsafe { sys::i2d_X509(certificate.as_ptr(), ptr::null_mut()) }).ok()?;
    let mut bytes = vec![0; length];
    let mut end = bytes.as_mut_ptr();
    // SAFETY: `end` points to as many writable bytes as the call has just announced.
    unsafe { sys::i2d_X509(certificate.as_ptr(), &raw mut end) };
    Some(bytes)
}

/// Owned private key.
struct Key(NonNull<sys::EVP_PKEY>);

impl Key {
    fn belongs_to(&self, certificate: NonNull<sys::X509>) -> bool {
        // SAFETY: both pointers are valid, and the call only reads them.
        unsafe { sys::X509_check_private_key(certificate.as_ptr(), self.0.as_ptr()) == 1 }
    }

    fn to_pkcs8(&self) -> Option<Vec<u8>> {
        let (mut bytes, mut length) = (ptr::null_mut(), 0);
        let mut builder = MaybeUninit::uninit();
        // SAFETY: `CBB_zero` initializes the builder, so that `CBB_cleanup` is right after any failure. `CBB_finish` hands
        // over a buffer.
        unsafe {
            sys::CBB_zero(builder.as_mut_ptr());
            if sys::CBB_init(builder.as_mut_ptr(), 256) != 1
                || sys::EVP_marshal_private_key(builder.as_mut_ptr(), self.0.as_ptr()) != 1
                || sys::CBB_finish(builder.as_mut_ptr(), &raw mut bytes, &raw mut length) != 1
            {
                sys::CBB_cleanup(builder.as_mut_ptr());
                return None;
            }
        }
        let bytes = NonNull::new(bytes)?;
        // SAFETY: the buffer has `length` initialized bytes and is not shared.
        let key = unsafe { std::slice::from_raw_parts(bytes.as_ptr(), length) }.to_vec();
        // SAFETY: the buffer is ours and not used again. The call overwrites it with zeros first.
        unsafe { sys::OPENSSL_free(bytes.as_ptr().cast::<c_void>()) };
        Some(key)
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        // SAFETY: the key is ours, and not used again.
        unsafe { sys::EVP_PKEY_free(self.0.as_ptr()) };
    }
}

/// Owned stack of certificates.
struct Certificates(NonNull<sys::stack_st_X509>);

impl Certificates {
    fn new() -> Option<Self> {
        // SAFETY: allocates an empty stack. Stacks of all types have one layout; the types are for C's compiler only.
        NonNull::new(unsafe { sys::OPENSSL_sk_new_null() }.cast()).map(Self)
    }

    fn stack(&self) -> *mut sys::OPENSSL_STACK {
        self.0.as_ptr().cast()
    }

    /// Iterates over the certificates. The stack keeps their ownership.
    fn iter(&self) -> impl ExactSizeIterator<Item = NonNull<sys::X509>> + DoubleEndedIterator {
        // SAFETY: the stack is valid.
        let count = unsafe { sys::OPENSSL_sk_num(self.stack()) };
        (0..count).map(|at| {
            // SAFETY: `at` is below the count, and AWS-LC puts no null on the stack.
            unsafe { NonNull::new_unchecked(sys::OPENSSL_sk_value(self.stack(), at).cast()) }
        })
    }
}

impl Drop for Certificates {
    fn drop(&mut self) {
        // SAFETY: the stack and its certificates are ours; each is released once, then the stack.
        unsafe {
            while let Some(certificate) = NonNull::new(sys::OPENSSL_sk_pop(self.stack())) {
                sys::X509_free(certificate.as_ptr().cast());
            }
            sys::OPENSSL_sk_free(self.stack());
        }
    }
}

/// Owned bytes of a store.
struct Store(NonNull<sys::PKCS12>);

impl Drop for Store {
    fn drop(&mut self) {
        // SAFETY: the store is ours, and not used again.
        unsafe { sys::PKCS12_free(self.0.as_ptr()) };
    }
}
