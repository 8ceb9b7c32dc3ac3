import { type EngineScene, specOf } from "@diskmesh/disk-agent/testing";
import type { DeviceId, DiskId } from "@diskmesh/domain";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";

export const DISK = "disk-1" as DiskId;
/** Session of the publication. Targets have later ones. */
export const SESSION = 1;

/** A device of the disk. The session is absent for the publication's. */
export interface On {
  readonly id: string;
  readonly sessionNumber?: number;
}

type Spec = ReturnType<typeof specOf>;
type Status = ReturnType<EngineScene["exports"]["askMirror"]>;

/** Orders the moves of a disk with one part, as a registry does. */
export class MoveOrders {
  constructor(
    private readonly scene: EngineScene,
    /** Part that counts. */
    public now: On = { id: "a" },
    public revision = 0,
    private readonly sizeBytes?: number,
  ) {}

  extent({ id, sessionNumber }: On): Spec["extents"][number] {
    const [extent] = specOf(DISK, SESSION, [id], this.sizeBytes).extents;
    if (extent === undefined) throw new Error("no extent");
    return { ...extent, ...(sessionNumber !== undefined && { sessionNumber }) };
  }

  /** Begins a move to a device, whose session it opens. */
  async begin(to: Required<On>, bytesPerSecond = 0): Promise<void> {
    await this.scene.open(DISK, to.sessionNumber, [to.id]);
    await this.serve({ ...this.extent(this.now), target: { ...this.extent(to), bytesPerSecond } });
  }

  async serve(extent: Spec["extents"][number]): Promise<void> {
    this.revision += 1;
    const { revision } = this;
    await this.scene.exports.serve({ ...specOf(DISK, SESSION, ["a"]), extents: [extent], revision });
  }

  ask({ id }: On, bytesPerSecond = 0): Status {
    return this.scene.exports.askMirror(
      { diskId: DISK, sessionNumber: SESSION, revision: this.revision },
      { source: { deviceId: this.now.id as DeviceId }, target: { deviceId: id as DeviceId } },
      bytesPerSecond,
    );
  }

  /** Resolves once the move has this answer. */
  async until(to: On, is: "equal" | "failed"): Promise<Status> {
    let status: Status | undefined;
    await eventually(() => {
      status = this.ask(to);
      expect(status.answer).to.have.property("is", is);
    });
    if (status === undefined) throw new Error("no answer");
    return status;
  }

  /** Has a device count. */
  async count(to: On): Promise<void> {
    await this.serve(this.extent(to));
    this.now = to;
  }

  /** Moves the disk to a device, and takes the former one from it. */
  async move(to: Required<On>): Promise<void> {
    await this.begin(to);
    await this.until(to, "equal");
    const { id } = this.now;
    await this.count(to);
    await this.scene.open("disk-2", to.sessionNumber + 1, [id]);
  }
}
