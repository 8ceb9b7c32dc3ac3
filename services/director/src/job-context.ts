import type { HealthJobContext } from "./health/context.js";
import type { LogJobContext } from "./instance-logs/context.js";
import type { StemcellJobContext } from "./stemcells/context.js";
import type { VendorJobContext } from "./vendor-methods/context.js";

export type JobContext = HealthJobContext & LogJobContext & StemcellJobContext & VendorJobContext;
