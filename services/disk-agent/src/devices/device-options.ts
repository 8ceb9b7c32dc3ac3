import type { Logger } from "@diskmesh/domain";
import type { Changes, Clock } from "@diskmesh/service";
import type { Ledger } from "../cache/ledger.js";
import type { DeviceMapper } from "../kernel/device-mapper.js";
import type { NvmeTarget } from "../kernel/nvme-target.js";
import type { HangLimits } from "./device-problem.js";
import type { HardwareErrors } from "./hardware-errors.js";

/** Dependencies and limits of a device. */
export interface DeviceOptions {
  readonly ledger: Ledger;
  readonly hardwareErrors: HardwareErrors;
  readonly changes: Changes<void>;
  /** Present where the kernel carries the bytes; the opener of files then makes guards. */
  readonly mapper: DeviceMapper | undefined;
  /** Serves legs to holders on other hosts. Present where a mapper is. */
  readonly nvmeTarget?: NvmeTarget | undefined;
  readonly maxInFlightIoPerDevice: number;
  readonly clock: Clock;
  readonly hangs: HangLimits;
  readonly log: Logger;
  /** Called when a file, or the label of a device in use, has changed, so that the agent registers again. */
  readonly onChange: () => void;
}
