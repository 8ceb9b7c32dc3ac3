import { isIP } from "node:net";
import type { Logger } from "@diskmesh/domain";
import { baseFolderPaths } from "../base/base-folder.js";
import { type AgentConfig, blockHostOf } from "../base/config.js";
import { machineBootId } from "../host/machine-boot-id.js";
import { NvmeHost, whyNoNvme } from "./nvme-host.js";
import type { NvmeAddress } from "./nvme-names.js";
import { NvmeTarget } from "./nvme-target.js";
import { Verbs } from "./verbs.js";
import { WireGuard } from "./wireguard.js";
import { innerAddressOf } from "./wireguard-names.js";

const DEFAULT_PORT = 4420;
const DEFAULT_WIREGUARD_PORT = 51_820;

/** Keys of the config that concern NVMe/TCP. */
export type NvmeConfig = Pick<AgentConfig, "hostId" | "baseFolder" | "listen" | "remoteIoTimeoutMs"> &
  Partial<Pick<AgentConfig, "storageNetwork" | "wireguardPort" | "nvmeListen" | "blockListen" | "advertisedAddress">>;

/** NVMe/TCP of this host's kernel. */
export interface Nvme {
  readonly target: NvmeTarget;
  readonly host: NvmeHost;
  /** Address at which holders reach the target. Its host may be a name. */
  readonly address: NvmeAddress;
  /** Reason why parts of disks on other hosts are not carried by it; undefined when they are. */
  readonly whyNot: string | undefined;
  /** WireGuard of the host. The address is inside when it is used. */
  readonly wireguard?: WireGuard | undefined;
}

/** Returns the NVMe/TCP of a host with the engine kernel. What former lives have left is there also when `whyNot` is set. */
export async function makeNvme(config: NvmeConfig, log: Logger): Promise<Nvme> {
  const { hostId, listen, blockListen, advertisedAddress, wireguardPort = DEFAULT_WIREGUARD_PORT } = config;
  const configured = config.nvmeListen ?? { host: (blockListen ?? listen).host, port: DEFAULT_PORT };
  const isUsed = config.storageNetwork === "wireguard";
  const nvmeListen = isUsed ? { host: innerAddressOf(hostId), port: configured.port } : configured;
  const wireguard = new WireGuard({
    hostId,
    isUsed,
    keyFile: baseFolderPaths(config.baseFolder).wireguardKey,
    endpoint: { host: blockHostOf({ blockListen, listen, advertisedAddress }), port: wireguardPort },
    nvmePort: nvmeListen.port,
    verbs: new Verbs(),
  });
  // The port outside of WireGuard may have subsystems of a former config, and a port with subsystems keeps its address.
  const portId = isUsed ? wireguardPort : undefined;
  const nvme = nvmeOf({ ...config, nvmeListen }, log, { portId });
  const host = isUsed ? nvmeListen.host : blockHostOf({ blockListen: nvmeListen, listen, advertisedAddress });
  const reason = await whyNot(config, nvmeListen, wireguard);
  return { ...nvme, address: { host, port: nvmeListen.port }, whyNot: reason, wireguard };
}

/** Returns both sides of NVMe/TCP, without a look at what the host has. */
export function nvmeOf(
  {
    hostId,
    nvmeListen,
    remoteIoTimeoutMs,
  }: Pick<NvmeConfig, "hostId" | "remoteIoTimeoutMs"> & { nvmeListen: NvmeAddress },
  log: Logger,
  {
    verbs = new Verbs(),
    bootId = machineBootId,
    portId,
  }: { verbs?: Verbs; bootId?: () => Promise<string>; portId?: number | undefined } = {},
): Pick<Nvme, "target" | "host"> {
  const common = { hostId, verbs, log };
  return {
    target: new NvmeTarget({ ...common, machineBootId: bootId, listen: nvmeListen, portId }),
    host: new NvmeHost({ ...common, failAfterMs: remoteIoTimeoutMs }),
  };
}

async function whyNot(
  { hostId, storageNetwork }: NvmeConfig,
  { host, port }: NvmeAddress,
  wireguard: WireGuard,
): Promise<string | undefined> {
  if (storageNetwork === undefined) return `the config of host ${hostId} has no storageNetwork`;
  if (isIP(host) === 0 || port === 0)
    return `nvmeListen of host ${hostId} needs an IP address and a port, and has ${JSON.stringify(host)} and ${port}`;
  const whyNoWireGuard = wireguard.isUsed ? await wireguard.start() : undefined;
  if (whyNoWireGuard !== undefined) return `host ${hostId} has no WireGuard: ${whyNoWireGuard}`;
  const reason = await whyNoNvme(new Verbs());
  return reason && `host ${hostId} has no NVMe/TCP: ${reason}`;
}
