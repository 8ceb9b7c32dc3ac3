import { lookup } from "node:dns/promises";
import { type DeviceId, type Logger, parseHostPort, UnavailableError } from "@diskmesh/domain";
import type { Ledger } from "../cache/ledger.js";
import type { RemoteKernelParts } from "../engines/kernel-engine.js";
import type { KernelPart, TakenPart } from "../engines/kernel-part.js";
import type { Nvme } from "../kernel/nvme.js";
import type { FoundNamespace } from "../kernel/nvme-host.js";
import { fleetOf, isSubsystemOf, type NamespaceName, type NvmeAddress } from "../kernel/nvme-names.js";
import type { WireGuard } from "../kernel/wireguard.js";
import { innerAddressOf } from "../kernel/wireguard-names.js";
import { exportDeviceOf, linkOf } from "../model/exports.js";
import type { ExportDevice, ExportSpec } from "../model/memory.js";
import { isPublicKey } from "../model/wireguard.js";
import { formatSessionIdentity } from "./session-identity.js";
import { askForShare, formatShareRequest, type ShareAnswer, type ShareVerb } from "./share-request.js";

interface NvmePartsOptions {
  readonly nvme: Pick<Nvme, "host" | "whyNot" | "wireguard">;
  readonly ledger: Ledger;
  readonly log: Logger;
}

/** Parts of disks that this host's kernel reads and writes at other hosts, by NVMe/TCP. */
export class NvmeParts implements RemoteKernelParts {
  readonly #options: NvmePartsOptions;

  constructor(options: NvmePartsOptions) {
    this.#options = options;
  }

  get whyNot(): string | undefined {
    return this.#options.nvme.whyNot;
  }

  async whyNotThere(devices: readonly ExportDevice[], spec: ExportSpec): Promise<string | undefined> {
    const hosts = new Map(devices.map((device) => [device.hostId, device]));
    const answers = await Promise.all([...hosts.values()].map((device) => this.of(device, spec).ask("offer")));
    return answers.find(({ whyNot }) => whyNot !== undefined)?.whyNot;
  }

  of(device: ExportDevice, spec: ExportSpec): NvmePart {
    return new NvmePart(device, spec, this.#options);
  }

  endLeftovers(isServed: (sessionNumber: number) => boolean): Promise<void> {
    return this.#options.nvme.host.endLeftovers(isServed);
  }
}

/** A part on a device of another host: a piece of a namespace there. */
class NvmePart implements KernelPart {
  readonly deviceId: DeviceId;
  readonly #device: ExportDevice;
  readonly #spec: ExportSpec;
  readonly #options: NvmePartsOptions;

  constructor(device: ExportDevice, spec: ExportSpec, options: NvmePartsOptions) {
    this.deviceId = device.deviceId;
    this.#device = device;
    this.#spec = spec;
    this.#options = options;
  }

  get #sessionNumber(): number {
    return this.#device.sessionNumber ?? this.#spec.sessionNumber;
  }

  get #wireguard(): WireGuard | undefined {
    const { wireguard } = this.#options.nvme;
    return wireguard?.isUsed === true ? wireguard : undefined;
  }

  get #name(): NamespaceName {
    const { hostId } = this.#device;
    const fleet = fleetOf(this.#options.ledger.memory.tabletId);
    const { deviceId, offsetBytes = 0 } = linkOf(this.#device);
    return { fleet, hostId, sessionNumber: this.#sessionNumber, deviceId, offsetBytes };
  }

  /** Asks the device's host. Throws UnavailableError when that fails. */
  async ask(verb: ShareVerb): Promise<ShareAnswer> {
    const { diskId, sessionNumber: exportSession } = this.#spec;
    const link = linkOf(this.#device);
    const { memory } = this.#options.ledger;
    // A repeated order brings another address or key.
    const now = exportDeviceOf(memory, { diskId, sessionNumber: exportSession, ...link }) ?? this.#device;
    const { host, port } = parseHostPort("block_address", now.blockAddress);
    const session = formatSessionIdentity({ ...link, sessionNumber: this.#sessionNumber });
    const { publicKey } = this.#wireguard?.side ?? {};
    const identity = formatShareRequest({ verb, identity: session, publicKey });
    const key = Buffer.from(now.sessionKey, "hex");
    const answer = await askForShare({ host, port, identity, key }).catch(
      (error: Error): ShareAnswer => ({ error: error.message }),
    );
    if (answer.error === undefined) return answer;
    const what = `device ${this.deviceId} of host ${this.#device.hostId}`;
    throw new UnavailableError(`${what} is not served by NVMe/TCP now: ${answer.error}`, {
      about: { device_id: this.deviceId },
    });
  }

  async take(): Promise<TakenPart> {
    const name = this.#name;
    const { nqn, host, port, whyNot, publicKey = "", endpoint = "", isNew = false } = await this.ask("share");
    if (nqn === undefined || host === undefined || port === undefined || !isSubsystemOf(nqn, name))
      throw new UnavailableError(
        `host ${name.hostId} does not serve device ${this.deviceId} by NVMe/TCP: ${whyNot ?? "its answer names no subsystem of the session"}`,
        { about: { device_id: this.deviceId } },
      );
    const wireguard = this.#wireguard;
    if (wireguard === undefined) return this.#connect(name, nqn, { host: (await lookup(host)).address, port });
    if (!isPublicKey(publicKey))
      throw new UnavailableError(`host ${name.hostId} answered with no public key of WireGuard`, {
        about: { device_id: this.deviceId },
      });
    // Other addresses would not be inside WireGuard, whatever the host has answered.
    const inside = { host: innerAddressOf(name.hostId), port };
    return wireguard.reach(name.hostId, { publicKey, endpoint, isNew }, () => this.#connect(name, nqn, inside));
  }

  async #connect(name: NamespaceName, nqn: string, address: NvmeAddress): Promise<TakenPart> {
    const { offsetBytes = 0, sizeBytes } = this.#device;
    return this.#taken(await this.#options.nvme.host.connect(name, { nqn, address }, offsetBytes + sizeBytes));
  }

  async find(): Promise<TakenPart | undefined> {
    const found = await this.#options.nvme.host.find(this.#name);
    return found && this.#taken(found);
  }

  #taken({ number, nqn, startBytes }: FoundNamespace): TakenPart {
    const { offsetBytes = 0, sizeBytes } = this.#device;
    return { segment: { on: number, offsetBytes: offsetBytes - startBytes, sizeBytes }, nqn };
  }

  noteTaken(): void {}

  refusal(): undefined {}

  problem(): Promise<string | undefined> {
    return this.#options.nvme.host.problemOf(this.#name);
  }

  leave(): Promise<void> {
    return this.end();
  }

  /** Ends the connection, which is that of all parts of the session on the device's host. */
  end(): Promise<void> {
    return this.#options.nvme.host.disconnect(this.#name);
  }
}
