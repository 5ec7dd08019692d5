//! Endpoints of the admin port. One table routes requests and generates the OpenAPI document.

mod description;
mod endpoint;
mod limit_rows;
mod openapi;
mod router;
mod rows;

pub(super) use self::endpoint::{Call, Endpoint, EndpointPath, Run};
pub(super) use self::router::{EndpointSearch, all_names, find, find_exposed};
