//! Several files as one configuration.

use crate::tests::*;

/// A folder with files.
struct Folder(tempfile::TempDir);

impl Folder {
    fn of(files: &[(&str, &str)]) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        for (name, text) in files {
            folder.write(name, text);
        }
        folder
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.0.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Loads the files `names`. Returns the result with the folder's path removed.
    fn load(&self, names: &[&str], profiles: Option<&str>) -> Result<Loaded, String> {
        let paths: Vec<PathBuf> = names.iter().map(|name| self.0.path().join(name)).collect();
        load(&paths, profiles).map_err(|error| self.plain(&error.render(false)))
    }

    /// Returns the diagnostics of a configuration that can be used.
    fn notes(&self, names: &[&str]) -> String {
        let loaded = self.load(names, None).unwrap_or_else(|error| panic!("{error}"));
        self.plain(&loaded.notes.to_string())
    }

    fn plain(&self, text: &str) -> String {
        text.replace(&format!("{}/", self.0.path().display()), "")
    }
}

const SPRING: &str = "spring.cloud.gateway.routes:\n- {id: a, uri: 'lb://orders', predicates: [Path=/a/**], filters: [{name: RequestRateLimiter, args: {key-resolver: '#{@user}', redis-rate-limiter.replenishRate: 1}}]}\n";

#[test]
fn values_of_later_files_win_and_lists_are_replaced() {
    let folder = Folder::of(&[
        ("application.yml", SPRING),
        (
            "overlay.yaml",
            "server: {max-headers: 60}\nupstreams: {orders: {endpoints: ['http://127.0.0.1:1']}}\nkey-resolvers: {user: ip}\n",
        ),
        ("last.yaml", "upstreams: {orders: {endpoints: ['http://127.0.0.2:2']}}\nkey-resolvers: {USER: path}\n"),
    ]);
    assert!(folder.load(&["application.yml"], None).unwrap_err().contains("Java bean"));
    let loaded = folder.load(&["application.yml", "overlay.yaml", "last.yaml"], None).unwrap();
    assert_eq!(loaded.config.server.max_headers, 60);
    assert!(loaded.config.is_spring);
    let upstream = format!("{:?}", loaded.config.upstreams);
    assert!(upstream.contains("127.0.0.2") && !upstream.contains("127.0.0.1"), "{upstream}");
}

#[test]
fn each_diagnostic_names_its_file() {
    let folder = Folder::of(&[
        ("application.yml", SPRING),
        (
            "overlay.yaml",
            "key-resolvers:\n  user: nonsense\nupstreams: {orders: {endpoints: ['http://127.0.0.1:1']}}\n",
        ),
    ]);
    let error = folder.load(&["application.yml", "overlay.yaml"], None).unwrap_err();
    assert!(error.contains("overlay.yaml:2:9: error: "), "{error}");
    folder.write("overlay.yaml", "upstreams: {orders: {endpoints: ['http://127.0.0.1:1']}}\n");
    let error = folder.load(&["application.yml", "overlay.yaml"], None).unwrap_err();
    assert!(error.contains("application.yml:2:"), "{error}");
    folder.write("overlay.yaml", "upstreams: [\n");
    let error = folder.load(&["application.yml", "overlay.yaml"], None).unwrap_err();
    assert!(error.contains("overlay.yaml:2:1: error: not valid YAML"), "{error}");
    assert_eq!(
        folder.load(&["application.yml", "none.yaml"], None).unwrap_err().matches("cannot read none.yaml").count(),
        1
    );
}

#[test]
fn a_value_over_keys_is_reported_with_both_places() {
    let folder = Folder::of(&[
        ("a.yaml", "routes: ['a=http://a,Path=/**']\nserver:\n  path: {backslash: keep}\n"),
        ("b.yaml", "server:\n  path: keep\n"),
        ("c.yaml", "server:\n  path:\n  max-headers: 7\n"),
    ]);
    let error = folder.load(&["a.yaml", "b.yaml"], None).unwrap_err();
    let both = "b.yaml:2:9: warning: `server.path` is a value here, which replaces a map of keys at a.yaml:3:9\n";
    assert!(error.contains(both), "{error}");
    assert!(error.contains("b.yaml:2:9: error: "), "{error}");
    assert_eq!(folder.notes(&["a.yaml", "c.yaml"]), "", "an empty value leaves a map, as in Spring");
}

#[test]
fn files_of_profiles_follow_their_own_file() {
    let folder = Folder::of(&[
        ("application.yml", "spring.profiles.active: prod\nspring.cloud.gateway.routes: ['a=http://a,Path=/**']\n"),
        (
            "application-prod.yml",
            "server: {max-headers: 20, max-requests-per-connection: 20}\nspring.profiles.active: test\n",
        ),
        ("gateway.yml", "server: {max-headers: 30}\n"),
        ("gateway-prod.yml", "server: {max-header-size: 9000}\n"),
        ("gateway-test.yml", "server: {max-header-size: 7000}\n"),
    ]);
    let headers = |names: &[&str]| folder.load(names, None).unwrap().config.server.max_headers;
    assert_eq!(headers(&["application.yml"]), 20);
    assert_eq!(headers(&["application.yml", "gateway.yml"]), 30);
    assert_eq!(headers(&["application.yml", "gateway.yml", "application.yml"]), 20);
}
