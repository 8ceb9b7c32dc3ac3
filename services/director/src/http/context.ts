import type { CsiDrivers } from "@diskmesh/service";
import type { AgentContext } from "../agents/context.js";
import type { Refusals } from "../audit/refusals.js";
import type { CapacityContext } from "../disks/context.js";
import type { ExplainContext } from "../explain/context.js";
import type { HealthContext } from "../health/context.js";
import type { LogContext } from "../instance-logs/context.js";
import type { InstanceContext } from "../instances/context.js";
import type { Activity } from "../page/activity.js";
import type { Overview } from "../page/overview.js";
import type { StemcellContext } from "../stemcells/context.js";
import type { VendorContext } from "../vendor-methods/context.js";

export interface Context
  extends AgentContext,
    InstanceContext,
    HealthContext,
    LogContext,
    StemcellContext,
    VendorContext,
    CapacityContext,
    ExplainContext {
  readonly csiDrivers: CsiDrivers;
  readonly refusals: Refusals;
  readonly overview: Overview;
  readonly activity: Activity;
}
