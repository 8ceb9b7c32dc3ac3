import type { AgentRegistrationServiceDefinition } from "@diskmesh/api/internal";
import type { Client } from "@diskmesh/rpc";
import type { Clock } from "@diskmesh/service";
import type { IoCounters } from "./base/io-counters.js";
import type { CacheFileSystem } from "./cache/cache-file.js";
import type { EndBlockDevices } from "./engines/block-devices.js";
import type { Chosen } from "./exports/choose-engine.js";
import type { ListenNbd } from "./nbd/server.js";
import type { LinkDevice } from "./remote/device-link.js";
import type { ListenForHolders } from "./remote/device-listener.js";

/** External effects of an agent, apart from the APIs that it serves. */
export interface AgentEdges extends Chosen {
  readonly clock: Clock;
  /** In [0, 1). */
  readonly random: () => number;
  readonly newBootId: () => string;
  readonly machineBootId: () => Promise<string>;
  readonly cacheFiles: CacheFileSystem;
  readonly listenNbd: ListenNbd;
  /** Reason why the host cannot make block devices of disks; undefined when it can. */
  readonly whyNoBlockDevices: string | undefined;
  readonly endBlockDevices: EndBlockDevices;
  readonly linkDevice: LinkDevice;
  readonly listenForHolders: ListenForHolders;
  /** Counters of the I/O of disks that the kernel carries; undefined counts none. */
  readonly io: Pick<IoCounters, "follow"> | undefined;
  readonly connectRegistry: () => Client<typeof AgentRegistrationServiceDefinition>;
}
