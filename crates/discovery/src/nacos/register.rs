//! Requests that register an instance. The version of the API, the server and the access token are those of lookups.

use std::rc::Rc;

use bytes::Bytes;
use http::{Method, StatusCode};

use crate::client::{Call, Reply};
use crate::nacos::{LookupError, NacosRegistry, Shared, TIMEOUT, Version, form};

impl NacosRegistry {
    /// Returns the state that registrations use.
    pub(crate) fn shared(&self) -> Rc<Shared> {
        Rc::clone(&self.0)
    }
}

impl Shared {
    /// Returns true if the server has the API of 3.x.
    pub(crate) fn is_v3(&self) -> bool {
        self.version.get() == Version::V3
    }

    /// Sends a request about an instance. `path` follows that of instances.
    ///
    /// # Errors
    /// The server does not answer, or the login fails.
    pub(crate) async fn send_instance(
        &self,
        method: Method,
        path: &str,
        parameters: &[(&str, &str)],
    ) -> Result<Reply, LookupError> {
        let at = self.current.get();
        let reply = self.try_instance(at, method, path, parameters).await;
        match &reply {
            Ok(reply) if [StatusCode::FORBIDDEN, StatusCode::UNAUTHORIZED].contains(&reply.status) => {
                // The next request logs in again.
                self.token.borrow_mut().take();
            }
            Ok(_) => {}
            Err(_) => {
                self.current.set((at + 1) % self.clients.len());
                self.version.set(Version::Unknown);
            }
        }
        reply
    }

    async fn try_instance(
        &self,
        at: usize,
        method: Method,
        path: &str,
        parameters: &[(&str, &str)],
    ) -> Result<Reply, LookupError> {
        let client = &self.clients[at];
        let token = self.token(client).await?;
        let mut all = parameters.to_vec();
        all.push(("groupName", &self.settings.group));
        all.push(("namespaceId", &self.settings.namespace));
        all.push(("accessToken", token.as_ref().map_or("", |token| token.text.0.as_str())));
        let query = form(&all);
        let send = async |base: &str| {
            let target = format!("{base}{path}?{query}");
            let (method, body) = (method.clone(), Bytes::new());
            let call = Call { method, target: &target, headers: &[], body, timeout: TIMEOUT, is_repeated: true };
            client.send(&call).await
        };
        if self.version.get() != Version::V1 {
            let reply = send("/v3/client/ns/instance").await?;
            if ![StatusCode::NOT_FOUND, StatusCode::GONE, StatusCode::METHOD_NOT_ALLOWED].contains(&reply.status) {
                self.version.set(Version::V3);
                return Ok(reply);
            }
        }
        self.version.set(Version::V1);
        Ok(send("/v1/ns/instance").await?)
    }
}
