export * as z from "zod";
export { Driver, type DriverDevice, type DriverEnvironment } from "./driver.js";
export {
  type Declaration,
  type DeclaredMethod,
  driverMethod,
  type MethodCall,
  MethodError,
  nodeMethod,
  secret,
} from "./method.js";
