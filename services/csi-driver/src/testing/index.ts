export { DriverProcess } from "./driver-process.js";
export { failureOf } from "./failure-of.js";
export { needLoopDevices } from "./loop-devices.js";
