export * from "./agent-authority.js";
export * from "./authority.js";
export {
  type CertificateFiles,
  certificateFiles,
  createDevelopmentCertificates,
  NATS_COMMON_NAME,
} from "./development.js";
export { parseHolders } from "./holders.js";
export { identifiedKey, pinOf } from "./identified-key.js";
export { MeshCertificates } from "./mesh-certificates.js";
