import { isIP } from "node:net";
import type { Logger } from "@diskmesh/domain";
import { type AgentConfig, blockHostOf } from "../config.js";
import { machineBootId } from "../host/machine-boot-id.js";
import { NvmeHost, whyNoNvme } from "./nvme-host.js";
import type { NvmeAddress } from "./nvme-names.js";
import { NvmeTarget } from "./nvme-target.js";
import { Verbs } from "./verbs.js";

const DEFAULT_PORT = 4420;

/** Keys of the config that concern NVMe/TCP. */
export type NvmeConfig = Pick<AgentConfig, "hostId" | "listen" | "remoteIoTimeoutMs"> &
  Partial<Pick<AgentConfig, "storageNetwork" | "nvmeListen" | "blockListen" | "advertisedAddress">>;

/** NVMe/TCP of this host's kernel. */
export interface Nvme {
  readonly target: NvmeTarget;
  readonly host: NvmeHost;
  /** Address at which holders reach the target. Its host may be a name. */
  readonly address: NvmeAddress;
  /** Reason why parts of disks on other hosts are not carried by it; undefined when they are. */
  readonly whyNot: string | undefined;
}

/** Returns the NVMe/TCP of a host with the engine kernel. What former lives have left is there also when `whyNot` is set. */
export async function makeNvme(config: NvmeConfig, log: Logger): Promise<Nvme> {
  const { listen, blockListen, advertisedAddress } = config;
  const nvmeListen = config.nvmeListen ?? { host: (blockListen ?? listen).host, port: DEFAULT_PORT };
  const nvme = nvmeOf({ ...config, nvmeListen }, log);
  const host = blockHostOf({ blockListen: nvmeListen, listen, advertisedAddress });
  return { ...nvme, address: { host, port: nvmeListen.port }, whyNot: await whyNot(config, nvmeListen) };
}

/** Returns both sides of NVMe/TCP, without a look at what the host has. */
export function nvmeOf(
  {
    hostId,
    nvmeListen,
    remoteIoTimeoutMs,
  }: Pick<NvmeConfig, "hostId" | "remoteIoTimeoutMs"> & { nvmeListen: NvmeAddress },
  log: Logger,
  { verbs = new Verbs(), bootId = machineBootId } = {},
): Pick<Nvme, "target" | "host"> {
  const common = { hostId, verbs, log };
  return {
    target: new NvmeTarget({ ...common, machineBootId: bootId, listen: nvmeListen }),
    host: new NvmeHost({ ...common, failAfterMs: remoteIoTimeoutMs }),
  };
}

async function whyNot(
  { hostId, storageNetwork }: NvmeConfig,
  { host, port }: NvmeAddress,
): Promise<string | undefined> {
  if (storageNetwork === undefined) return `storageNetwork is not "trusted" in the config of host ${hostId}`;
  if (isIP(host) === 0 || port === 0)
    return `nvmeListen of host ${hostId} needs an IP address and a port, and has ${JSON.stringify(host)} and ${port}`;
  const reason = await whyNoNvme(new Verbs());
  return reason && `host ${hostId} has no NVMe/TCP: ${reason}`;
}
