export * as z from "zod";
export { Driver, type DriverEnvironment } from "./driver.js";
export { type Declaration, driverMethod, type MethodCall, MethodError, nodeMethod, secret } from "./method.js";
