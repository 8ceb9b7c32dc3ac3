export { CurrentTls } from "./current-tls.js";
export { identityOfAlternativeNames } from "./identity.js";
export {
  problemsOfPair,
  problemsOfTlsFiles,
  readServerTlsFiles,
  type TlsFiles,
  type TlsMaterial,
} from "./tls-files.js";
export { type Contents, type Found, readFiles, WatchedFiles } from "./watched-files.js";
