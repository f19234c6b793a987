//! Finds the library of an interpreter for the test that runs none; all else links without it.

use std::path::Path;
use std::process::Command;

const WHERE: &str = "import os, sysconfig as s; v = s.get_config_var
if v('Py_ENABLE_SHARED') and os.name == 'posix':
    print(v('LIBDIR'), v('INSTSONAME') or v('LDLIBRARY'), sep='\\n')";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=PYO3_PYTHON");
    println!("cargo::rustc-check-cfg=cfg(interpreter_library)");
    let python = std::env::var("PYO3_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let Ok(output) = Command::new(python).args(["-c", WHERE]).output() else {
        return;
    };
    let told = String::from_utf8_lossy(&output.stdout);
    if let Some((dir, name)) = told.trim().split_once('\n') {
        let library = Path::new(dir).join(name);
        if library.is_file() {
            println!("cargo::rustc-cfg=interpreter_library");
            println!("cargo::rustc-link-arg-tests={}", library.display());
            println!("cargo::rustc-link-arg-tests=-Wl,-rpath,{dir}");
        }
    }
}
