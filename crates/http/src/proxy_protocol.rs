//! The PROXY protocol, versions 1 and 2: a trusted proxy sends the client's address when it connects.

use std::io;
use std::net::IpAddr;

use ppp::v2::{Command, PROTOCOL_PREFIX};
use ppp::{HeaderResult, v1, v2};
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// The maximum length of a version 1 header, including CRLF, in bytes (section 2.1 of the specification).
const MAX_V1: usize = 107;

/// The maximum length of a version 2 header in bytes, including additional fields (TLVs).
const MAX_V2: usize = 2048;

/// Reads the header and nothing after it. Returns the client's address, or `None` if the header contains no
/// IP address: `UNKNOWN` in version 1, `LOCAL` (a health check) and other address families in version 2.
/// Fails with `InvalidData` if the bytes are no valid header or it is too long.
pub(super) async fn read_header<S: AsyncRead + Unpin>(stream: &mut S) -> io::Result<Option<IpAddr>> {
    // Read as many bytes as the version 2 signature has. Every version 1 header is longer.
    let mut header = vec![0; PROTOCOL_PREFIX.len()];
    stream.read_exact(&mut header).await?;
    if header == PROTOCOL_PREFIX {
        let mut rest = [0; 4];
        stream.read_exact(&mut rest).await?;
        header.extend_from_slice(&rest);
        let addresses = usize::from(u16::from_be_bytes([rest[2], rest[3]]));
        let known = header.len();
        if known + addresses > MAX_V2 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        header.resize(known + addresses, 0);
        stream.read_exact(&mut header[known..]).await?;
    } else if header.starts_with(b"PROXY ") {
        while !header.ends_with(b"\r\n") {
            if header.len() == MAX_V1 {
                return Err(io::ErrorKind::InvalidData.into());
            }
            header.push(stream.read_u8().await?);
        }
    }
    parse_client(&header).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Parses a complete header. Returns `None` if it is invalid, and `Some(None)` if it names no client.
#[expect(clippy::option_option, reason = "a valid header may name no client")]
fn parse_client(header: &[u8]) -> Option<Option<IpAddr>> {
    let address = match HeaderResult::parse(header) {
        HeaderResult::V1(header) => match header.ok()?.addresses {
            v1::Addresses::Tcp4(addresses) => Some(addresses.source_address.into()),
            v1::Addresses::Tcp6(addresses) => Some(IpAddr::from(addresses.source_address)),
            v1::Addresses::Unknown => None,
        },
        HeaderResult::V2(header) => match header.ok().map(|header| (header.command, header.addresses))? {
            (Command::Proxy, v2::Addresses::IPv4(addresses)) => Some(addresses.source_address.into()),
            (Command::Proxy, v2::Addresses::IPv6(addresses)) => Some(IpAddr::from(addresses.source_address)),
            _ => None,
        },
    };
    Some(address.map(|address| address.to_canonical()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

    /// Sends a header in one piece, and byte by byte. The rest must be left for the next reader.
    async fn check(header: &[u8], expected: Result<Option<&str>, ()>) {
        let expected =
            expected.map(|address| address.map(|address| address.parse::<IpAddr>().expect("an address")));
        let sent = [header, b"GET / HTTP/1.1\r\n\r\n"].concat();
        let mut whole = &sent[..];
        assert_eq!(read_header(&mut whole).await.map_err(|_| ()), expected, "{header:?}");
        let mut trickling = tokio_test_reader(&sent);
        assert_eq!(read_header(&mut trickling).await.map_err(|_| ()), expected, "{header:?} byte by byte");
        if expected.is_ok() {
            assert_eq!(whole, b"GET / HTTP/1.1\r\n\r\n", "{header:?}");
        }
    }

    /// A reader that returns one byte at a time.
    fn tokio_test_reader(bytes: &[u8]) -> impl AsyncRead + Unpin {
        struct OneByOne(std::io::Cursor<Vec<u8>>);
        impl AsyncRead for OneByOne {
            fn poll_read(
                mut self: std::pin::Pin<&mut Self>,
                _: &mut std::task::Context<'_>,
                buffer: &mut tokio::io::ReadBuf<'_>,
            ) -> std::task::Poll<io::Result<()>> {
                let mut byte = [0];
                let count = std::io::Read::read(&mut self.0, &mut byte)?;
                buffer.put_slice(&byte[..count]);
                std::task::Poll::Ready(Ok(()))
            }
        }
        OneByOne(std::io::Cursor::new(bytes.to_vec()))
    }

    fn version_2(command: u8, family: u8, addresses: &[u8]) -> Vec<u8> {
        let length = u16::try_from(addresses.len()).expect("it is short").to_be_bytes();
        [V2, &[0x20 | command, family], &length, addresses].concat()
    }

    #[tokio::test]
    async fn both_versions_name_the_client() {
        check(b"PROXY TCP4 192.0.2.7 198.51.100.1 4711 80\r\n", Ok(Some("192.0.2.7"))).await;
        check(b"PROXY TCP6 2001:db8::7 2001:db8::1 4711 80\r\n", Ok(Some("2001:db8::7"))).await;
        check(b"PROXY UNKNOWN\r\n", Ok(None)).await;
        check(b"PROXY UNKNOWN 192.0.2.7 198.51.100.1 4711 80\r\n", Ok(None)).await;
        let v4 = [192, 0, 2, 7, 198, 51, 100, 1, 0x12, 0x67, 0, 80];
        check(&version_2(1, 0x11, &v4), Ok(Some("192.0.2.7"))).await;
        // A health check by the proxy itself.
        check(&version_2(0, 0x00, &[]), Ok(None)).await;
        check(&version_2(0, 0x11, &v4), Ok(None)).await;
        // A client on a Unix socket, and one with an unspecified address family.
        check(&version_2(1, 0x31, &[b'x'; 216]), Ok(None)).await;
        check(&version_2(1, 0x00, &[]), Ok(None)).await;
        // With an additional field (TLV).
        check(&version_2(1, 0x11, &[&v4[..], &[4, 0, 3, 1, 2, 3]].concat()), Ok(Some("192.0.2.7"))).await;
        let mapped: [u8; 16] = "::ffff:192.0.2.7".parse::<std::net::Ipv6Addr>().expect("an address").octets();
        let v6 = [&mapped[..], &[0; 16], &[0x12, 0x67, 0, 80]].concat();
        check(&version_2(1, 0x21, &v6), Ok(Some("192.0.2.7"))).await;
    }

    #[tokio::test]
    async fn anything_else_ends_the_connection() {
        check(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", Err(())).await;
        check(b"PROXY TCP4 192.0.2.7\r\n", Err(())).await;
        check(b"PROXY TCP4 192.0.2.700 198.51.100.1 4711 80\r\n", Err(())).await;
        check(b"PROXY TCP4 2001:db8::7 2001:db8::1 4711 80\r\n", Err(())).await;
        check(&[&b"PROXY TCP4 "[..], &[b'1'; 4000]].concat(), Err(())).await;
        check(&version_2(1, 0x11, &[1, 2, 3]), Err(())).await;
        check(&version_2(1, 0x11, &[7; 4000]), Err(())).await;
        assert!(read_header(&mut &b"PROXY TC"[..]).await.is_err(), "the connection ends within the header");
        assert!(read_header(&mut &b""[..]).await.is_err());
    }
}
