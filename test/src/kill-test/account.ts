import { AttachState, type Device } from "@diskmesh/api/registry";

/** What a caller was told last of a device, and so what must be true of it from then on. */
export type Told =
  /** A call is under way, or the device was purged: anything may be. */
  | "unsettled"
  /** Add* was answered. */
  | "in"
  /** Remove* was answered E_TRY_AGAIN. */
  | "leaving"
  /** Remove* was answered S_OK: its agent has let go. */
  | "out";

export interface DeviceAccount {
  readonly hostId: string;
  readonly deviceId: string;
  readonly path: string;
  readonly offsetBytes: number;
  readonly sizeBytes: number;
  told: Told;
  /** It was purged and not seen since: AddHost says S_OK of the host's other devices, and nothing of this one. */
  purged: boolean;
  /** The highest seen; the registry never goes back behind it. */
  deviceGeneration: number;
}

const MAY_BE: Readonly<Record<Told, readonly AttachState[] | undefined>> = {
  unsettled: undefined,
  in: [AttachState.ATTACHING, AttachState.ATTACHED],
  leaving: undefined,
  out: [AttachState.DETACHED, AttachState.UNKNOWN],
};

/** What all callers together were told, and whether what is seen contradicts it. */
export class Account {
  readonly #violations = new Set<string>();
  readonly devices: readonly DeviceAccount[];
  #tabletGeneration = 0;

  constructor(devices: readonly Omit<DeviceAccount, "told" | "purged" | "deviceGeneration">[]) {
    this.devices = devices.map((device) => ({ ...device, told: "unsettled", purged: false, deviceGeneration: 0 }));
  }

  of(hostId: string): DeviceAccount[] {
    return this.devices.filter((device) => device.hostId === hostId);
  }

  /** Each once, however often it was seen. */
  get violations(): readonly string[] {
    return [...this.#violations];
  }

  violated(text: string): void {
    this.#violations.add(text);
  }

  /** The registry's word on a device, asked for while nothing else was being asked of its host. */
  compare(account: DeviceAccount, seen: Device): void {
    const { deviceId, told } = account;
    const allowed = MAY_BE[told];
    if (allowed !== undefined && !allowed.includes(seen.attachState))
      this.violated(`${deviceId}: its caller was told "${told}", and it is ${seen.attachState}`);
    if (told === "out" && seen.attachState === AttachState.DETACHED && !seen.detachConfirmed)
      this.violated(`${deviceId}: DETACHED without its agent's word, though its host was never away for long`);
    const isHeld = seen.attachState === AttachState.ATTACHING || seen.attachState === AttachState.ATTACHED;
    // What is erased first is held until then.
    if (told === "leaving" && isHeld && !seen.removalRequested)
      this.violated(
        `${deviceId}: its caller was told to ask again, and it is ${seen.attachState} as if nobody had asked`,
      );
    if (told === "in" && seen.removalRequested)
      this.violated(`${deviceId}: a wish to remove it is left though it was added`);
    if (seen.deviceGeneration < account.deviceGeneration)
      this.violated(`${deviceId}: generation ${seen.deviceGeneration} after ${account.deviceGeneration}`);
    if (seen.tabletGeneration < this.#tabletGeneration)
      this.violated(`${deviceId}: tablet generation ${seen.tabletGeneration} after ${this.#tabletGeneration}`);
    account.purged = false;
    account.deviceGeneration = Math.max(account.deviceGeneration, seen.deviceGeneration);
    this.#tabletGeneration = Math.max(this.#tabletGeneration, seen.tabletGeneration);
  }

  /** The descriptor table of a host's agent, now: what it let go of is not open. Returns how many paths were judged. */
  compareOpenFiles(hostId: string, openFiles: readonly string[]): number {
    const open = new Set(openFiles.map((path) => path.replace(/ \(deleted\)$/, "")));
    const devices = this.of(hostId);
    const closed = new Set(devices.map((device) => device.path));
    // A path stays open with the last device on it.
    for (const { path, told } of devices) if (told !== "out") closed.delete(path);
    for (const path of closed)
      if (open.has(path))
        this.violated(`${path}: every device on it is DETACHED, and the agent of ${hostId} holds it open`);
    return closed.size;
  }
}
