#!/bin/sh
# Installs frontdesk from a release archive, after it has compared the archive with SHA256SUMS.
#
#   sh install.sh FOLDER        the archive and SHA256SUMS are in this folder
#   sh install.sh URL           downloads both from this address, such as https://downloads.example.com/0.1.0
#
#   --prefix DIR     installs into DIR/bin and DIR/share; the default is /usr/local for root, ~/.local for others
#   --key FILE       also checks the signature (SHA256SUMS.asc) with the public key in this file; needs gpg
#   --static         takes the archive with the static binary, even if the other one runs here
#   --release V      installs this version; the default is the version that this script was released with
#
# The environment variables FRONTDESK_FROM, FRONTDESK_PREFIX, FRONTDESK_KEY and FRONTDESK_RELEASE replace the
# arguments. Nothing is installed if a check fails. An https address never leads to a download over http. On a server with systemd, see docs/pages/install.md in the archive.
set -eu

# Set by scripts/release. Empty in the repository: takes the version that SHA256SUMS lists.
RELEASE=

main() {
    from=${FRONTDESK_FROM:-} prefix=${FRONTDESK_PREFIX:-} key=${FRONTDESK_KEY:-} static=
    release=${FRONTDESK_RELEASE:-$RELEASE}
    while [ $# -gt 0 ]; do
        case $1 in
            -h | --help) usage; exit 0 ;;
            --prefix) [ $# -gt 1 ] || die "--prefix needs a folder"; prefix=$2; shift ;;
            --key) [ $# -gt 1 ] || die "--key needs a file"; key=$2; shift ;;
            --static) static=yes ;;
            --release) [ $# -gt 1 ] || die "--release needs a version"; release=$2; shift ;;
            -*) die "unknown option '$1'; see --help" ;;
            *) from=$1 ;;
        esac
        shift
    done
    if [ -z "$from" ]; then
        usage >&2
        exit 2
    fi
    case $release in
        *[!0-9A-Za-z.+~-]*) die "'$release' is not a version, such as 0.1.0" ;;
    esac
    if [ -z "$prefix" ]; then
        if [ "$(id -u)" = 0 ]; then prefix=/usr/local; else prefix=$HOME/.local; fi
    fi
    [ "$(uname -s)" = Linux ] || die "frontdesk runs on Linux; this is $(uname -s)"
    case $(uname -m) in
        x86_64 | amd64) architecture=x86_64 ;;
        aarch64 | arm64) architecture=aarch64 ;;
        *) die "there is no release for $(uname -m), only for x86_64 and aarch64" ;;
    esac

    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    trap 'exit 1' HUP INT TERM

    fetch SHA256SUMS "$work/SHA256SUMS" || die "there is no SHA256SUMS in $from; nothing was installed"
    check_signature
    archive=$(choose_archive)
    if [ -z "$archive" ]; then
        [ -z "$static" ] || die "SHA256SUMS lists no archive with a static binary for $architecture; nothing was installed"
        has_glibc || die "this system needs a static binary, because it has no glibc 2.36 or later, and SHA256SUMS" \
            "lists no archive with one for $architecture; nothing was installed"
        die "SHA256SUMS lists no archive${release:+ of version $release} for $architecture; nothing was installed"
    fi
    fetch "$archive" "$work/$archive" || die "there is no $archive in $from; nothing was installed"
    check_sum
    unpack
    next_steps
}

usage() { sed -n '2,/^set -eu/{/^#/s/^# \{0,1\}//p;}' "$0"; }

die() {
    echo "install.sh: $*" >&2
    exit 1
}

# fetch NAME FILE: copies or downloads a file of the release.
fetch() {
    case $from in
        https://*)
            if command -v curl >/dev/null 2>&1; then
                download --proto '=https' --proto-redir '=https' --output "$2" "${from%/}/$1"
            elif wget --help 2>&1 | grep -q -e --max-redirect; then
                # Wget cannot restrict the protocol of redirects, so it follows none.
                wget --quiet --max-redirect=0 --output-document="$2" "${from%/}/$1"
            else
                die "a download needs curl or GNU wget"
            fi
            ;;
        http://*)
            echo "install.sh: http does not protect the download: only --key detects that it was replaced" >&2
            if command -v curl >/dev/null 2>&1; then
                download --proto '=http,https' --output "$2" "${from%/}/$1"
            else
                wget --quiet --output-document="$2" "${from%/}/$1" || die "a download needs curl or wget"
            fi
            ;;
        *) [ -f "$from/$1" ] && cp "$from/$1" "$2" ;;
    esac
}

download() { curl --silent --show-error --fail --location "$@"; }

# Without a key the checksum only detects a damaged download: an attacker who can replace the archive can also
# replace SHA256SUMS.
check_signature() {
    if [ -z "$key" ]; then
        echo "The signature is not checked, because no --key was given."
        return
    fi
    [ -f "$key" ] || die "there is no key file $key"
    command -v gpg >/dev/null 2>&1 || die "--key needs gpg"
    fetch SHA256SUMS.asc "$work/SHA256SUMS.asc" || die "there is no SHA256SUMS.asc in $from; nothing was installed"
    # Only this key is in the keyring, so no other signature is valid.
    mkdir -m 700 "$work/gpg"
    gpg --homedir "$work/gpg" --batch --quiet --no-autostart --import "$key" 2>/dev/null || die "$key is not a public key"
    gpg --homedir "$work/gpg" --batch --quiet --no-autostart --trust-model always \
        --verify "$work/SHA256SUMS.asc" "$work/SHA256SUMS" 2>/dev/null ||
        die "the signature of SHA256SUMS is not valid for $key; nothing was installed"
    echo "The signature is valid."
}

# Prints the name of the archive in SHA256SUMS. Takes the static binary where the C library is too old or missing.
choose_archive() {
    suffix=linux
    if [ -n "$static" ] || ! has_glibc; then suffix=linux-static; fi
    version=$(printf %s "$release" | sed 's/[.+]/\\&/g')
    sed -n "s/^[0-9a-f]\{64\} [ *]\(frontdesk-${version:-[0-9][0-9A-Za-z.+~-]*}-$architecture-$suffix\.tar\.gz\)\$/\1/p" \
        "$work/SHA256SUMS" | tail -n 1
}

# Whether the C library is glibc 2.36 or later.
has_glibc() {
    version=$(getconf GNU_LIBC_VERSION 2>/dev/null) || return 1
    version=${version#glibc }
    major=${version%%.*}
    minor=${version#*.}
    minor=${minor%%.*}
    [ "$major" -gt 2 ] || { [ "$major" -eq 2 ] && [ "$minor" -ge 36 ]; }
}

check_sum() {
    expected=$(sed -n "s/^\([0-9a-f]\{64\}\) [ *]$archive\$/\1/p" "$work/SHA256SUMS" | tail -n 1)
    actual=$(sha256sum "$work/$archive" | cut -d ' ' -f 1)
    [ "$expected" = "$actual" ] ||
        die "$archive is damaged or was replaced: its SHA-256 is $actual, and SHA256SUMS has $expected; nothing was installed"
    echo "The checksum of $archive is correct."
}

unpack() {
    mkdir "$work/unpacked"
    tar -xzf "$work/$archive" -C "$work/unpacked"
    folder=$work/unpacked/${archive%.tar.gz}
    "$folder/frontdesk" --version >/dev/null || die "the binary does not run on this machine; nothing was installed"
    mkdir -p "$prefix/bin" "$prefix/share/man/man1" "$prefix/share/doc/frontdesk" \
        "$prefix/share/bash-completion/completions"
    # Renamed into place, so that a running server keeps its binary.
    cp "$folder/frontdesk" "$prefix/bin/.frontdesk.new"
    chmod 755 "$prefix/bin/.frontdesk.new"
    mv -f "$prefix/bin/.frontdesk.new" "$prefix/bin/frontdesk"
    cp "$folder"/man/*.1 "$prefix/share/man/man1/"
    cp "$folder/completions/frontdesk.bash" "$prefix/share/bash-completion/completions/frontdesk"
    cp -R "$folder/README.md" "$folder/LICENSE" "$folder/THIRD-PARTY.txt" "$folder/docs" "$folder/systemd" \
        "$folder/examples" "$prefix/share/doc/frontdesk/"
}

next_steps() {
    echo "Installed $("$prefix/bin/frontdesk" --version) in $prefix/bin."
    case :$PATH: in
        *":$prefix/bin:"*) command=frontdesk ;;
        *) command=$prefix/bin/frontdesk
           echo "$prefix/bin is not in your PATH; add it, or call frontdesk by its full name." ;;
    esac
    cat <<TEXT

Next:
  $command init desk       writes a small site
  $command serve desk      serves it at http://127.0.0.1:8080/

The documentation is in $prefix/share/doc/frontdesk/docs/pages.
TEXT
}

main "$@"
