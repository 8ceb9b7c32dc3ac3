/** Parts for a simulator that runs a registry without a process, and for benches of its model. */
export { RefusedAgents } from "./agents/refused-agents.js";
export { buildContext } from "./build-context.js";
export type { Context } from "./calls/context.js";
export { configSchema } from "./config/config.js";
export { REGISTRY_LIMITS, type RegistryLimits } from "./config/limits.js";
export { acceptDroppedCopy, offers } from "./model/copies/accept.js";
export {
  addCopy,
  freeable,
  keptCopies,
  leaveCopy,
  leaveSurplus,
  noteEqual,
  noteFreed,
  noteTargetGrant,
  retryTarget,
  sessionOfCopy,
} from "./model/copies/adding.js";
export { type CopiedDisk, changePart, devicesIn } from "./model/copies/copied-disk.js";
export { dropCopy } from "./model/copies/drops.js";
export { orderOf } from "./model/copies/order.js";
export {
  askedDevices,
  beginEnd,
  beginFence,
  beginPublication,
  completeSession,
  isExportLost,
  mayDropUnheard,
  noteCleanEnd,
  noteConfirmed,
  renewSession,
} from "./model/copies/publications.js";
export { asUnproven, isIssuedBefore, prove } from "./model/copies/records.js";
export { isDeletable, removeDevice } from "./model/copies/removing.js";
export { misplacedCopy, planRepairs } from "./model/copies/repairs.js";
export { beginSnapshot, endSnapshot, noteSnapshotGrant, takeCut } from "./model/copies/snapshots.js";
export {
  isSteady,
  isTrouble,
  noteHeard,
  noteSilent,
  type Steadiness,
  steady,
  withDrop,
} from "./model/copies/steadiness.js";
export { allocate } from "./model/disks/allocation.js";
export { addHost } from "./model/hosts/add-action.js";
export { registerAgent } from "./model/hosts/registration.js";
export { countingDevices } from "./model/store/layout.js";
export { diskOn, disksOn, eraseSessionOf, holds, holdsAnyDisk, isDirty, runAt } from "./model/store/runs.js";
export type { Device, Disk, DiskRequest, Host } from "./model/store/schema.js";
export { bytesOf, partOffsetBytes, spacesOf } from "./model/store/slices.js";
export { addServices } from "./services.js";
export { storedSchema as schema } from "./store/stored-schema.js";
