import type { Logger } from "@diskmesh/domain";
import type { AgentConfig } from "../base/config.js";
import type { AgentLimits } from "../base/limits.js";
import type { Ledger } from "../cache/ledger.js";
import type { DeviceTable } from "../devices/device-table.js";
import type { Prober } from "../devices/prober.js";
import type { Rescan } from "../devices/rescan.js";
import type { VendorCalls } from "../drivers/vendor-calls.js";
import type { ExportTable } from "../exports/export-table.js";
import type { Copier } from "../mirror/copier.js";
import type { AttachOrders } from "../orders/attach-orders.js";
import type { Eraser } from "../orders/eraser.js";
import type { Labels } from "../orders/labels.js";
import type { SessionOrders } from "../orders/session-orders.js";
import type { RegistrationDue } from "./registration-due.js";

/** Parts of the agent that carry out the registry's orders for devices. */
interface DeviceOrders {
  readonly attach: AttachOrders;
  readonly sessions: SessionOrders;
  readonly eraser: Eraser;
  readonly labels: Labels;
  readonly copier: Copier;
}

/** Dependencies of handlers and workers. */
export interface AgentContext {
  readonly config: AgentConfig;
  readonly limits: AgentLimits;
  /** Random id of this start of the agent; orders for an earlier start are refused. */
  readonly bootId: string;
  readonly ledger: Ledger;
  readonly devices: DeviceTable;
  /** Looks for new devices, and at the health of those that are held. */
  readonly checks: { readonly rescan: Rescan; readonly prober: Prober };
  readonly registrationDue: RegistrationDue;
  readonly orders: DeviceOrders;
  readonly exports: ExportTable;
  /** Address for holders on other hosts. Throws UnavailableError while the agent cannot listen. */
  readonly holders: { address(): string };
  readonly vendors: VendorCalls;
  readonly log: Logger;
}
