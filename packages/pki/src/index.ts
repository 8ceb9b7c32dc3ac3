export * from "./agent-authority.js";
export * from "./authority.js";
export { type CertificateFiles, certificateFiles, createDevelopmentCertificates } from "./development.js";
export { parseHolders } from "./holders.js";
export { identifiedKey } from "./identified-key.js";
export { MeshCertificates } from "./mesh-certificates.js";
