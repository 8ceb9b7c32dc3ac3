export { DriverProcess } from "./driver-process.js";
export { failureOf } from "./failure-of.js";
export { LoopDevices, needLoopDevices } from "./loop-devices.js";
