//! A small site as a generator writes it.

use std::path::Path;

/// Writes the build. The page `/about/` contains `text`.
pub fn write_build(folder: &Path, text: &str) {
    let write = |name: &str, content: &str| {
        let file = folder.join(name);
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("it can be created");
        std::fs::write(file, content).expect("it can be written");
    };
    let page = |title: &str, main: &str| {
        format!(
            "<!doctype html><html lang=en><head><meta charset=utf-8><title>{title} | Acme</title>\
             <meta property=og:site_name content=Acme><meta name=description content=\"What Acme makes.\">\
             <link rel=stylesheet href=/assets/style.0a1b2c3d.css></head><body><nav><a href=/>Home</a> \
             <a href=/about/>About</a></nav><main><h1>{title}</h1><p>{main}</p></main>\
             <footer>All rights reserved</footer></body></html>"
        )
    };
    write("assets/style.0a1b2c3d.css", "p { color: red }\n");
    write("about/index.html", &page("About", text).replace("</body>", "<script>go()</script></body>"));
    write("contact.html", &page("Contact", &"Write to us. ".repeat(40)));
    write("404.html", &page("Lost", "Nothing is here."));
    write("data.json", "{}");
    write("_headers", "/about/\n  X-Robots-Tag: noarchive\n");
    write(
        "_redirects",
        "/moved https://www.example.org/ 302\n/team /about/#team 301\n/find /about/?find=acme\n\
         /old/* /blog/:splat\n/app/* /index.html 200\n",
    );
    write("frontdesk.toml", "");
    write("index.html", &page("Home", "Welcome to the home page."));
}
