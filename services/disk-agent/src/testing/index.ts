export { readMemory } from "../cache/open-ledger.js";
export { VendorCalls } from "../drivers/vendor-calls.js";
export { endDaemons } from "../end-sessions.js";
export { dmsetup } from "../kernel/device-mapper.js";
export { DriveErrors } from "../kernel/drive-errors.js";
export { beginBlockFlood } from "./block-client.js";
export { engineContract } from "./engine-contract.js";
export { DEVICE_BYTES, EngineScene, noise, specOf } from "./engine-scene.js";
