export { CurrentTls } from "./current-tls.js";
export { identityOfAlternativeNames } from "./identity.js";
export {
  problemsOfPair,
  problemsOfTlsFiles,
  readServerTlsFiles,
  type TlsFiles,
  type TlsMaterial,
} from "./tls-files.js";
