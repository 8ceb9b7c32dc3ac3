export { CurrentTls } from "./current-tls.js";
export { identityOfAlternativeNames } from "./identity.js";
export { readServerTlsFiles, type TlsFiles, type TlsMaterial } from "./tls-files.js";
