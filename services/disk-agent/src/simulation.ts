/** Parts for a simulator that runs an agent without a process. */
export { registerWithRegistry, startHolding, watchDevices } from "./agent.js";
export { configSchema } from "./base/config.js";
export { UNCOUNTED } from "./base/io-counters.js";
export { AGENT_LIMITS, type AgentLimits } from "./base/limits.js";
export type { CacheFileSystem } from "./cache/cache-file.js";
export type { AgentContext } from "./calls/context.js";
export type { AgentEdges } from "./edges.js";
export type { FileFacts, FileOpener, OpenedFile, OpenHandle } from "./files/open-file.js";
export { diskDigest } from "./labels/disk-digest.js";
export { latestRecord, type RecordSlots, slotToWrite } from "./model/copies/copy-record.js";
export { beginDraining, cut, endOfFailed } from "./model/copies/cut.js";
export {
  type Holder,
  isCleanEnd,
  isRecorded,
  isServing,
  type Leg,
  noteRequestFailed,
  type Order as HolderOrder,
  recordFor,
  recovered,
  takeOrder,
} from "./model/copies/holder.js";
export {
  bind,
  type HolderWord,
  nextFilling,
  noteCopied,
  noteError,
  noteFlushed,
  noteHeard,
  noteRecorded,
  noteSettled,
  noteSilence,
  noteSuperseded,
  noteTouched,
  readLeg,
  wordsOf,
} from "./model/copies/legs.js";
export { type CopyRequest, nextStep } from "./model/copies/requests.js";
export { LABEL_BYTES } from "./model/label.js";
export type { AgentMemory } from "./model/memory.js";
export { decodeRecord, RECORD_BYTES } from "./model/run-record.js";
export { decodeTable } from "./model/run-table.js";
export { highestSession } from "./model/sessions.js";
export type { ListenNbd } from "./nbd/server.js";
export type { DiskPart } from "./parts/disk-part.js";
export { type DeviceLink, type LinkDevice, LinkLostError } from "./remote/device-link.js";
export type { ListenForHoldersOptions } from "./remote/device-listener.js";
export { formatSessionIdentity } from "./remote/session-identity.js";
export { addServices } from "./services.js";
