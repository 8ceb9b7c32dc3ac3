import type { Logger } from "@diskmesh/domain";
import type { Clock } from "@diskmesh/service";
import type { Ledger } from "./cache/ledger.js";
import type { AgentConfig } from "./config.js";
import type { AttachOrders } from "./devices/attach-orders.js";
import type { DeviceTable } from "./devices/device-table.js";
import type { Eraser } from "./devices/eraser.js";
import type { Prober } from "./devices/prober.js";
import type { Rescan } from "./devices/rescan.js";
import type { SessionOrders } from "./devices/session-orders.js";
import type { VendorCalls } from "./drivers/vendor-calls.js";
import type { ExportTable } from "./exports/export-table.js";
import type { Labels } from "./labels/labels.js";
import type { AgentLimits } from "./limits.js";
import type { Copier } from "./moves/copier.js";
import type { RegistrationDue } from "./registration-due.js";
import type { BlockAddress } from "./remote/block-address.js";

/** Dependencies of handlers and workers. */
export interface AgentContext {
  readonly config: AgentConfig;
  readonly limits: AgentLimits;
  /** Random id of this start of the agent; orders for an earlier start are refused. */
  readonly bootId: string;
  readonly ledger: Ledger;
  readonly devices: DeviceTable;
  readonly attachOrders: AttachOrders;
  readonly rescan: Rescan;
  readonly prober: Prober;
  readonly registrationDue: RegistrationDue;
  readonly sessions: SessionOrders;
  readonly eraser: Eraser;
  readonly labels: Labels;
  readonly copier: Copier;
  readonly exports: ExportTable;
  /** Address for holders on other hosts. */
  readonly holders: BlockAddress;
  readonly vendors: VendorCalls;
  readonly clock: Clock;
  readonly log: Logger;
}
