//! JSON Web Tokens: keys made in the test, and tokens signed with them.

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, RsaKeyPair};
use jsonwebtoken::jwk::Jwk;
pub use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};

/// Signs tokens.
pub struct Signer {
    /// Its algorithm.
    pub alg: Algorithm,
    /// Key id.
    pub kid: &'static str,
    key: EncodingKey,
}

impl Signer {
    /// With a new key on P-256.
    pub fn es256(kid: &'static str) -> Self {
        let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).unwrap();
        Self { alg: Algorithm::ES256, kid, key: EncodingKey::from_ec_der(key.as_ref()) }
    }

    /// With a new RSA key of 2048 bits.
    pub fn rs256(kid: &'static str) -> Self {
        let pair = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
        // PKCS#1 is wanted, which PKCS#8 carries behind 26 bytes.
        let key = EncodingKey::from_rsa_der(&AsDer::<Pkcs8V1Der<'_>>::as_der(&pair).unwrap().as_ref()[26..]);
        Self { alg: Algorithm::RS256, kid, key }
    }

    /// Its public key.
    pub fn jwk(&self) -> Value {
        let mut jwk = Jwk::from_encoding_key(&self.key, self.alg).unwrap();
        jwk.common.key_id = Some(self.kid.to_owned());
        serde_json::to_value(jwk).unwrap()
    }

    /// A token with these claims, and an `exp` in ten minutes unless they have one.
    pub fn token(&self, claims: &Value) -> String {
        let mut claims = claims.clone();
        if claims.get("exp").is_none() {
            claims["exp"] = json!(now() + 600);
        }
        let header = Header { kid: Some(self.kid.to_owned()), ..Header::new(self.alg) };
        jsonwebtoken::encode(&header, &claims, &self.key).unwrap()
    }
}

/// A key set of these signers.
pub fn jwks(signers: &[&Signer]) -> String {
    let keys: Vec<Value> = signers.iter().map(|signer| signer.jwk()).collect();
    json!({ "keys": keys }).to_string()
}

/// Seconds since 1970.
pub fn now() -> u64 {
    jsonwebtoken::get_current_timestamp()
}
