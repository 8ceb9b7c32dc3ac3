import { InvalidStateError } from "@diskmesh/domain";
import type { Target } from "./instance.js";
import type { Json, JsonObject } from "./json.js";

/** What is recorded of every disk, whoever it belongs to. */
export interface DiskRecord {
  readonly deployment: string;
  readonly az: string;
  readonly cpi: string;
  readonly sizeMib: number;
  /** Of its disk type when it was first asked for, so that asking the CPI again asks for the same. */
  readonly cloudProperties: JsonObject;
  readonly state: string;
  /** Empty until it is known to exist. */
  readonly diskCid: string;
  /** Where it is, or may be, attached; empty when it surely is not. */
  readonly vmCid: string;
  /** Where the VM's agent finds it; null when not attached, or when the CPI gave none: the bosh-registry has it then. */
  readonly hint: Json;
}

/** Who a disk is given to. */
export interface Holder {
  readonly instanceId: string;
  /** Tells this attachment from all others, before and after it. */
  readonly attachmentId: string;
}

/** What happens to every disk. */
type DiskEvent = "intend_create" | "create" | "intend_attach" | "attach" | "fail_attach" | "intend_detach" | "detach";

type DiskTransitions<State extends string, Event extends string> = Readonly<
  Record<Event, Readonly<Partial<Record<State, State>>>>
>;

/** Disks of one kind: what can happen to them, and what their records are afterwards. */
export class DiskKind<Disk extends DiskRecord, Event extends string = never> {
  constructor(
    private readonly transitions: DiskTransitions<Disk["state"], Event | DiskEvent>,
    /** How messages and errors name one. */
    private readonly named: (disk: Disk) => { readonly shown: string; readonly about: Record<string, string> },
    /** What the kind records of who has it; undefined: nobody. */
    private readonly heldBy: (holder: Holder | undefined) => Partial<Disk>,
  ) {}

  /** Throws when that cannot happen to it now. */
  moved(disk: Disk, event: Event | DiskEvent): Disk {
    const state = this.transitions[event][disk.state as Disk["state"]];
    if (state !== undefined) return { ...disk, state };
    const { shown, about } = this.named(disk);
    throw new InvalidStateError(`${shown} is ${disk.state}: it cannot ${event.replace("_", " ")}`, { about });
  }

  created(disk: Disk, made: { readonly diskCid: string; readonly cpi: string }): Disk {
    return { ...this.moved(disk, "create"), ...made };
  }

  intendAttach(disk: Disk, target: Pick<Target, "instanceId" | "vmCid">, attachmentId: string): Disk {
    const { instanceId, vmCid } = target;
    return { ...this.moved(disk, "intend_attach"), ...this.heldBy({ instanceId, attachmentId }), vmCid, hint: null };
  }

  attached(disk: Disk, hint: Json): Disk {
    return { ...this.moved(disk, "attach"), hint };
  }

  /** attach_disk is known to have attached nothing. */
  notAttached(disk: Disk): Disk {
    return this.#nowhere(this.moved(disk, "fail_attach"));
  }

  detached(disk: Disk): Disk {
    return this.#nowhere(this.moved(disk, "detach"));
  }

  #nowhere(disk: Disk): Disk {
    return { ...disk, ...this.heldBy(undefined), vmCid: "", hint: null };
  }
}
