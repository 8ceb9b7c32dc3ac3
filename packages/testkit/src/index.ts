export { isQuickRun, leaveToVerify, skipBecause, skipWithout } from "@diskmesh/domain/testing";
export { anotherCertificate, type TestCertificates, testCertificates } from "./certificates.js";
export { Child } from "./child-process.js";
export { Drive } from "./drive.js";
export { endsWithParent } from "./ends-with-parent.js";
export { eventually } from "./eventually.js";
export { fakeHandlers } from "./fake-handlers.js";
export { runFolder, temporaryFolder } from "./folders.js";
export { Gate } from "./gate.js";
export {
  COLLECTS_ON_SIGUSR2,
  collectGarbage,
  type MemoryUse,
  memoryUseFile,
  reportsMemoryUseIn,
} from "./memory-use.js";
export { methodsOfRole, readingMethods, scopedMethods } from "./methods-of-role.js";
export { mountNamespace } from "./mount-namespace.js";
export { type NatsOptions, NatsServer, startNats } from "./nats.js";
export { onExit } from "./on-exit.js";
export { freePort } from "./ports.js";
export { wrongAnswers } from "./retriable-causes.js";
export { ServiceProcess, spawnService, type WaitFor } from "./service-process.js";
export { SmallDisk } from "./small-disk.js";
export { stemcellFile } from "./stemcell-file.js";
