export { failureOf } from "./csi-client.js";
export { DriverProcess } from "./driver-process.js";
export { LoopDevices, needLoopDevices } from "./loop-devices.js";
