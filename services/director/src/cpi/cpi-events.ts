import { messageOf } from "@diskmesh/domain";
import type { Deed } from "../audit/director-event.js";
import type { Begun, Events, Origin } from "../audit/events.js";
import { formatInstance, type Instance } from "../store/instance.js";
import { type DirectorTables, type DirectorTransaction, taskKey } from "../store/schema.js";
import type { DirectorTablet } from "../store/stored-schema.js";

/** Action and object type of each audited method. */
const DEEDS = {
  createVm: { action: "create", objectType: "vm" },
  deleteVm: { action: "delete", objectType: "vm" },
  rebootVm: { action: "reboot", objectType: "vm" },
  createDisk: { action: "create", objectType: "disk" },
  deleteDisk: { action: "delete", objectType: "disk" },
  attachDisk: { action: "attach", objectType: "disk" },
  detachDisk: { action: "detach", objectType: "disk" },
  resizeDisk: { action: "resize", objectType: "disk" },
  updateDisk: { action: "update", objectType: "disk" },
  setDiskLimits: { action: "limit", objectType: "disk" },
  snapshotDisk: { action: "create", objectType: "snapshot" },
  deleteSnapshot: { action: "delete", objectType: "snapshot" },
} as const satisfies Readonly<Record<string, Omit<Deed, "objectName">>>;

export type NotedMethod = keyof typeof DEEDS;

/** The fields of a request or an answer that name objects. */
interface Named {
  readonly vmCid?: string;
  readonly agentId?: string;
  readonly diskCid?: string;
  readonly snapshotCid?: string;
}

/** Records an event before each changing call, and an event with its result. */
export class CpiEvents {
  constructor(
    private readonly events: Pick<Events, "begin" | "noteBegin">,
    private readonly tablet: DirectorTablet,
  ) {}

  /**
   * Records the begin event in the transaction that intends the call. The caller must end the event when an error
   * prevents the call.
   */
  note(tx: DirectorTransaction, method: NotedMethod, taskId: number, request: object): Begun {
    const kind = DEEDS[method];
    const deed = { ...kind, objectName: nameOf(kind.objectType, request) };
    return this.events.noteBegin(tx, deed, { ...originOf(tx, taskId, request), taskId });
  }

  /** Makes the call between its begin and end events. `noted` is the begin event if `note` already recorded one. */
  async around<Result>(
    method: string,
    taskId: number,
    request: object,
    call: () => Promise<Result>,
    noted?: Begun,
  ): Promise<Result> {
    const kind = (DEEDS as Readonly<Record<string, Omit<Deed, "objectName"> | undefined>>)[method];
    if (kind === undefined) return call();
    const objectName = nameOf(kind.objectType, request);
    const begun = noted ?? (await this.#begin({ ...kind, objectName }, taskId, request));
    try {
      const result = await call();
      begun.end({ objectName: objectName || nameOf(kind.objectType, result as object) });
      return result;
    } catch (error) {
      begun.end({ error: messageOf(error) });
      throw error;
    }
  }

  async #begin(deed: Deed, taskId: number, request: object): Promise<Begun> {
    const origin = await this.tablet.read((tables) => originOf(tables, taskId, request));
    return this.events.begin(deed, { ...origin, taskId });
  }
}

function nameOf(objectType: string, { vmCid = "", diskCid = "", snapshotCid = "" }: Named): string {
  if (objectType === "vm") return vmCid;
  return objectType === "disk" ? diskCid : snapshotCid;
}

/** Returns the recorded deployment and instance of the VM or disk. */
function originOf(tables: DirectorTables, taskId: number, { vmCid = "", agentId = "", diskCid = "" }: Named): Origin {
  const [dynamic] = diskCid === "" ? [] : tables.disks.by("byCid", diskCid);
  const [persistent] = diskCid === "" ? [] : tables.persistentDisks.by("byCid", diskCid);
  const disk = dynamic ?? persistent;
  const [ofVm] = vmCid === "" ? [] : tables.instances.by("byVmCid", vmCid);
  const ofTask = tables.tasks.get(taskKey(taskId))?.deployment;
  const deployment = disk?.deployment ?? ofVm?.deployment ?? ofTask ?? "";
  const instance = persistent ?? ofVm ?? (agentId === "" ? undefined : madeNow(tables, agentId));
  return {
    ...(deployment === "" ? {} : { deployment }),
    ...(instance === undefined ? {} : { instance: formatInstance(instance) }),
    context: {
      ...(dynamic === undefined ? {} : { disk_name: dynamic.name }),
      ...(vmCid === "" || diskCid === "" ? {} : { vm_cid: vmCid }),
    },
  };
}

function madeNow(tables: DirectorTables, agentId: string): Instance | undefined {
  const [instance] = tables.instances.by("byVmToken", agentId);
  return instance;
}
