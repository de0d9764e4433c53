//! Where to listen, and who may read.

use std::net::{SocketAddr, TcpListener, ToSocketAddrs};

use staunch_types::{Error, ErrorKind, Result};

/// The address cannot be listened at.
const CANNOT_LISTEN: &str = "R104";
/// Other machines could read, and there is no token.
const OPEN_TO_ALL: &str = "R105";
/// The text is no address.
const NO_ADDRESS: &str = "R106";

/// Where the HTTP interface listens.
///
/// ```
/// use staunch_http::Http;
///
/// let for_this_machine = Http::at("127.0.0.1:9464");
/// let for_all_who_know_it = Http::at("0.0.0.0:9464").token("a long text that nobody can guess");
/// # let _ = (for_this_machine, for_all_who_know_it);
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Http {
    address: String,
    pub(crate) token: Option<String>,
}

impl std::fmt::Debug for Http {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A token is a secret.
        f.debug_struct("Http").field("address", &self.address).field("token", &self.token.as_ref().map(|_| "…")).finish()
    }
}

impl Http {
    /// At `HOST:PORT`, or at a port of this machine alone (127.0.0.1). Port 0 takes any that is free.
    #[must_use]
    pub fn at(address: impl Into<String>) -> Http {
        Http { address: address.into(), token: None }
    }

    /// Whoever asks must show this token, as `Authorization: Bearer TOKEN`. Without one, only this machine is answered.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Http {
        self.token = Some(token.into());
        self
    }

    /// Host and port.
    ///
    /// # Errors
    /// `Invalid` when the text is neither `HOST:PORT` nor a port.
    pub fn parse(&self) -> Result<(&str, u16)> {
        let (host, port) = match self.address.rsplit_once(':') {
            Some((host, port)) => (host, port),
            None => ("127.0.0.1", self.address.as_str()),
        };
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        // An IPv6 address has colons of its own, and so must stand in brackets.
        let is_host = bare.is_some() || (!host.is_empty() && !host.contains([':', '/', '[', ']']));
        match port.parse() {
            Ok(port) if is_host => Ok((bare.unwrap_or(host), port)),
            _ => Err(Error::new(ErrorKind::Invalid, NO_ADDRESS, format!("expected HOST:PORT or a port, found \"{}\"", self.address))
                .data("nothing was started")
                .remedy("give the address of the HTTP interface as in 127.0.0.1:9464, [::1]:9464 or 9464")),
        }
    }

    /// Listens.
    ///
    /// # Errors
    /// `Invalid`: no address, or one that is in use, is not this machine's, or is open to others without a token.
    pub(crate) fn listen(&self) -> Result<(TcpListener, SocketAddr)> {
        let (host, port) = self.parse()?;
        let cannot = |error: std::io::Error| {
            let remedy = match error.kind() {
                std::io::ErrorKind::AddrInUse => "end the program that listens there, or choose another port; 0 takes any that is free",
                std::io::ErrorKind::PermissionDenied => "choose a port from 1024 on, or give this program the right to use the lower ones",
                _ => "give an address of this machine, such as 127.0.0.1:9464",
            };
            Error::new(ErrorKind::Invalid, CANNOT_LISTEN, "the HTTP interface cannot listen at its address")
                .cause(error)
                .at(format!("address={}", self.address))
                .data("nothing was started")
                .remedy(remedy)
        };
        let found: Vec<SocketAddr> = (host, port).to_socket_addrs().map_err(cannot)?.collect();
        if self.token.is_none() && found.iter().any(|address| !address.ip().is_loopback()) {
            return Err(Error::new(ErrorKind::Invalid, OPEN_TO_ALL, "other machines could read the HTTP interface, and it has no token")
                .at(format!("address={}", self.address))
                .data("nothing was started")
                .remedy("name a file with a token with --http-token-file, or listen at 127.0.0.1"));
        }
        let listener = TcpListener::bind(found.as_slice()).map_err(cannot)?;
        listener.set_nonblocking(true).map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        Ok((listener, address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(http: &Http) -> String {
        http.listen().expect_err("it must be refused").to_string()
    }

    #[test]
    fn an_address_has_a_port_and_perhaps_a_host() {
        for (text, host, port) in
            [("9464", "127.0.0.1", 9464), ("localhost:0", "localhost", 0), ("[::1]:80", "::1", 80), ("0.0.0.0:65535", "0.0.0.0", 65_535)]
        {
            assert_eq!(Http::at(text).parse().expect("an address"), (host, port), "{text}");
        }
        for text in ["", "here", "here:", ":80", "::1:80", "127.0.0.1:65536", "http://127.0.0.1:80", "127.0.0.1:80/metrics"] {
            let text = refusal(&Http::at(text));
            assert!(text.starts_with("error[R106]: expected HOST:PORT or a port, found \""), "{text}");
        }
    }

    #[test]
    fn an_address_in_use_is_refused_with_what_to_do() {
        let (_first, address) = Http::at("0").listen().expect("a free port");
        let text = refusal(&Http::at(address.to_string()));
        assert!(text.starts_with("error[R104]") && text.contains("in use") && text.contains("choose another port"), "{text}");
        assert!(text.contains(&format!("address={address}")), "{text}");
        let text = refusal(&Http::at("192.0.2.1:0").token("secret"));
        assert!(text.starts_with("error[R104]") && text.contains("an address of this machine"), "{text}");
    }

    #[test]
    fn other_machines_are_let_in_only_with_a_token() {
        let text = refusal(&Http::at("0.0.0.0:0"));
        assert!(text.starts_with("error[R105]") && text.contains("--http-token-file"), "{text}");
        assert!(Http::at("0.0.0.0:0").token("secret").listen().is_ok());
    }

    #[test]
    fn a_token_is_not_printed() {
        assert!(!format!("{:?}", Http::at("0").token("secret")).contains("secret"));
    }
}
