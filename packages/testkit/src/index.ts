export { type TestCertificates, testCertificates } from "./certificates.js";
export type { Exit } from "./child-process.js";
export { type EventuallyOptions, eventually } from "./eventually.js";
export { temporaryFolder } from "./folders.js";
export { type NatsOptions, NatsServer, type NatsUser, startNats } from "./nats.js";
export { freePort } from "./ports.js";
export { ServiceProcess, type ServiceProcessOptions, spawnService } from "./service-process.js";
export { skipBecause } from "./skip.js";
export { stemcellFile } from "./stemcell-file.js";
