export * from "./agent-authority.js";
export {
  createAuthority,
  issueCertificate,
  type KeyPair,
} from "./authority.js";
export {
  type CertificateFiles,
  certificateFiles,
  createDevelopmentCertificates,
  NATS_COMMON_NAME,
} from "./development.js";
export { parseHolders } from "./holders.js";
export {
  createHostAuthority,
  type HostAuthority,
  type HostRequest,
  hostRequest,
  openHostAuthority,
  parseHostRequest,
  signHostCertificate,
} from "./host-authority.js";
export { identifiedKey, pinOf } from "./identified-key.js";
export { MeshCertificates } from "./mesh-certificates.js";
