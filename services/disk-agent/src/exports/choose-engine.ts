import { realpathSync } from "node:fs";
import { type Logger, messageOf, silentLogger, UnavailableError } from "@diskmesh/domain";
import type { AgentConfig } from "../base/config.js";
import { type DriveErrors, openDriveErrors } from "../devices/drive-errors.js";
import type { Engine, EngineName } from "../engines/engine.js";
import { GuardedFiles } from "../files/guarded-files.js";
import { type FileOpener, makeFileOpener } from "../files/open-file.js";
import { DeviceMapper, dmsetup, whyNoKernel, whyNoMirror } from "../kernel/device-mapper.js";
import { makeNvme, type Nvme, type NvmeConfig } from "../kernel/nvme.js";
import { whyNoFlushes } from "../kernel/nvme-host.js";
import { Verbs } from "../kernel/verbs.js";
import { whyNoWireGuard } from "../kernel/wireguard.js";
import type { ExportSpec } from "../model/memory.js";

/** Engine of a host, and why it is not kernel. */
interface Choice {
  readonly engine: EngineName;
  readonly whyNotKernel?: string;
}

/** Needs of a host's engine. */
export interface Chosen {
  /** Present with the engine kernel, whose opener makes guards. */
  readonly mapper: DeviceMapper | undefined;
  /** Present with the engine kernel. */
  readonly nvme?: Nvme | undefined;
  /** Opens device files as the engine needs them. */
  readonly opener: FileOpener;
  /** Present with the engine kernel where its log can be read. */
  readonly driveErrors?: DriveErrors | undefined;
}

/** Decides which engine carries the bytes, and logs that. Throws UnavailableError when the named one cannot. */
export async function chooseEngine(
  config: Pick<AgentConfig, "engine" | "baseFolder" | "requireFileLocks"> & NvmeConfig,
  log: Logger,
): Promise<Chosen> {
  const { engine: named, baseFolder, requireFileLocks } = config;
  const { engine, whyNotKernel } = await choose(named);
  const whyNoMoves = engine === "kernel" ? await whyNoMirror() : undefined;
  log.info({ engine, whyNotKernel, whyNoMoves }, "data path engine chosen");
  const mapper = new DeviceMapper(realpathSync(baseFolder), dmsetup, whyNoMoves);
  const files = makeFileOpener({ requireLocks: requireFileLocks });
  if (engine === "kernel") {
    const driveErrors = await openDriveErrors(log);
    const opener = new GuardedFiles({ files, mapper, log });
    const nvme = await makeNvme(config, log);
    log.info({ reason: nvme.whyNot, ...nvme.address }, "NVMe/TCP between hosts decided");
    if (typeof driveErrors !== "string") return { mapper, nvme, opener, driveErrors };
    log.warn({ reason: driveErrors }, "errors of drives not read from the kernel's log");
    return { mapper, nvme, opener };
  }
  // Their sessions would write beside those of the other engine.
  if (await mapper.hasAny())
    throw new UnavailableError(
      `engine is "${engine}", but an agent with the engine kernel has left its devices of device-mapper: unmount its disks, and run disk-agent with --end-sessions`,
    );
  return { mapper: undefined, opener: files };
}

/** Returns what --check-config says about the engine. */
export async function describeEngine({
  engine: named,
  storageNetwork,
}: Pick<AgentConfig, "engine"> & Partial<Pick<AgentConfig, "storageNetwork">>): Promise<string> {
  try {
    const { engine, whyNotKernel } = await choose(named);
    const reasons = whyNotKernel === undefined ? [] : [`not kernel: ${whyNotKernel}`];
    const whyNoMoves = engine === "kernel" ? await whyNoMirror() : undefined;
    if (whyNoMoves !== undefined) reasons.push(`disks in use do not move: ${whyNoMoves}`);
    const driveErrors = engine === "kernel" ? await openDriveErrors(silentLogger) : undefined;
    if (typeof driveErrors === "string") reasons.push(driveErrors);
    else await driveErrors?.close();
    const whyNot = storageNetwork === "wireguard" ? await whyNoWireGuard(new Verbs()) : undefined;
    if (whyNot !== undefined) reasons.push(`storageNetwork is "wireguard", but ${whyNot}`);
    const whyNoParts = engine === "kernel" && storageNetwork !== undefined ? await whyNoFlushes() : undefined;
    if (whyNoParts !== undefined) reasons.push(`node carries parts on other hosts: ${whyNoParts}`);
    return [`engine ${engine} carries the bytes of disks`, ...reasons].join("; ");
  } catch (error) {
    return messageOf(error);
  }
}

async function choose(named: "auto" | EngineName): Promise<Choice> {
  if (named === "node") return { engine: "node", whyNotKernel: "the config names node" };
  const reason = await whyNoKernel();
  if (reason === undefined) return { engine: "kernel" };
  const whyNotKernel = `${reason}: it needs root, device-mapper in the kernel, and dmsetup and losetup (Debian: dmsetup, mount)`;
  if (named === "kernel") throw new UnavailableError(`engine is "kernel", but ${whyNotKernel}`);
  return { engine: "node", whyNotKernel };
}

/** Returns the first engine that can serve the disk now, and why those before it cannot. Throws UnavailableError for none. */
export async function engineFor<E extends Pick<Engine, "name" | "whyNot" | "whyNotNow">>(
  engines: readonly E[],
  spec: ExportSpec,
  log: Logger,
): Promise<{ readonly engine: E; readonly reason: string }> {
  const reasons: string[] = [];
  for (const engine of engines) {
    const whyNot = engine.whyNot(spec) ?? (await engine.whyNotNow?.(spec));
    if (whyNot === undefined) return { engine, reason: reasons.join("; ") };
    reasons.push(`not ${engine.name}: ${whyNot}`);
    log.info({ diskId: spec.diskId, engine: engine.name, reason: whyNot }, "engine cannot serve the disk");
  }
  throw new UnavailableError(`no engine of this host can serve disk ${spec.diskId}: ${reasons.join("; ")}`);
}
