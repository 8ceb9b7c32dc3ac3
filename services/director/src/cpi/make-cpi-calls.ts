import { randomUUID } from "node:crypto";
import type { Logger } from "@diskmesh/domain";
import type { Clock, Lifecycle } from "@diskmesh/service";
import type { Events } from "../audit/events.js";
import type { DirectorConfig } from "../config/config.js";
import type { DirectorLimits } from "../config/limits.js";
import type { ReadersOfTexts } from "../configs/readers-of-texts.js";
import type { DirectorTablet } from "../store/stored-schema.js";
import { CallRecords } from "./call-records.js";
import { CpiCalls } from "./cpi-calls.js";
import { CpiConfigSender } from "./cpi-config-sender.js";
import { CpiEvents } from "./cpi-events.js";
import { CpiLogs } from "./cpi-logs.js";
import type { Dispatchers } from "./dispatchers.js";

/** The parts for CPI calls through the dispatchers. */
export interface CpiParts {
  readonly cpi: CpiCalls;
  readonly sender: CpiConfigSender;
  readonly callRecords: CallRecords;
}

export function makeCpiCalls(options: {
  readonly config: DirectorConfig;
  readonly limits: DirectorLimits;
  readonly tablet: DirectorTablet;
  readonly dispatchers: Dispatchers;
  readonly configs: ReadersOfTexts;
  readonly events: Events;
  readonly lifecycle: Lifecycle;
  readonly clock: Clock;
  /** Returns a number in [0, 1). */
  readonly log: Logger;
}): CpiParts {
  const { config, limits, tablet, dispatchers, configs, events, lifecycle, clock, log } = options;
  const { callTimeoutMs } = config.cpi;
  const { endTimeoutMs } = limits.cpi;
  const senderOptions = { dispatchers, tablet, configs, callTimeoutMs, log };
  const sender = lifecycle.use("cpi-config delivery", new CpiConfigSender(senderOptions));
  const addresses = dispatchers.all.map(({ address }) => address);
  const recording = { tablet, addresses, endTimeoutMs, clock, log };
  const callRecords = lifecycle.use("CPI call records", new CallRecords(recording));
  const clients = dispatchers.all.map(({ client }) => client);
  const logs = new CpiLogs({ clients, directorId: tablet.id, clock, log });
  const cpi = new CpiCalls({
    dispatchers,
    records: callRecords,
    directorId: tablet.id,
    // Read at each call, because a restored director may claim a higher generation later.
    directorGeneration: () => tablet.generation,
    cpiConfig: sender,
    logs: lifecycle.use("CPI logs", logs),
    events: new CpiEvents(events, tablet),
    checkMayAct: () => tablet.checkMayAct(),
    ...config.cpi,
    ...limits.cpi,
    newId: randomUUID,
    clock,
    random: Math.random,
  });
  return { cpi, sender, callRecords };
}
