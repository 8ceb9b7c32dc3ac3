import { DiskFullError, type DomainError, silentLogger, UnavailableError } from "@diskmesh/domain";
import { ManualClock, rejection } from "@diskmesh/domain/testing";
import { expect } from "chai";
import { LeaderHealth } from "../health/leader-health.js";
import { Readiness } from "../health/readiness.js";
import { Leadership, type Term } from "./leadership.js";

/** A service with a folder; the test begins and ends its terms. */
class Scene {
  readonly clock = new ManualClock();
  readonly aborted: string[] = [];
  readonly failures: unknown[] = [];
  readonly readiness = new Readiness({ needs: ["leader", "database"], log: silentLogger });
  /** Error that prevents a term; undefined lets it begin. */
  refusal: DomainError | undefined;
  endTerm: (reason: Error) => void = () => {};
  readonly leadership = new Leadership<string>({
    service: "disk-registry",
    standsBy: false,
    server: { abortCalls: ({ message }) => this.aborted.push(message) },
    health: new LeaderHealth({ readiness: this.readiness, clock: this.clock, database: undefined }),
    onFailure: (error) => this.failures.push(error),
    clock: this.clock,
    random: () => 1,
    log: silentLogger,
    lead: async (): Promise<Term<string>> => {
      if (this.refusal !== undefined) throw this.refusal;
      const lost = new Promise<Error>((resolve) => {
        this.endTerm = resolve;
      });
      return { context: "state", lost, checkMayAct: () => {} };
    },
  });

  served(): string {
    try {
      return this.leadership.current();
    } catch (error) {
      return (error as Error).message;
    }
  }
}

const FULL = new DiskFullError("cannot write to the tablet: the disk that holds /state is full");

describe("Leadership of a service on a folder", () => {
  it("serves nothing while its disk is full, names the reason, and leads again once there is space", async () => {
    const scene = new Scene();
    await scene.leadership.start();
    expect(scene.served()).to.equal("state");
    scene.refusal = FULL;
    scene.endTerm(FULL);
    await scene.clock.advance(0);
    expect(scene.readiness.report().ready).to.equal(false);
    expect(scene.readiness.report().why).to.contain("the disk that holds /state is full");
    expect(scene.aborted).to.have.length(1);
    expect(scene.aborted[0]).to.contain("the disk that holds /state is full");
    await scene.clock.advance(60_000);
    expect(scene.served()).to.match(
      /^this disk-registry does not serve until there is disk space: .* \/state is full$/,
    );
    scene.refusal = undefined;
    await scene.clock.advance(5_000);
    expect(scene.served()).to.equal("state");
    expect(scene.readiness.report()).to.include({ ready: true, why: "" });
    expect(scene.failures).to.deep.equal([]);
    await scene.leadership.close();
  });

  it("fails when its term ends for another reason, because no other process can lead", async () => {
    const scene = new Scene();
    const gone = new UnavailableError("the storage is gone");
    await scene.leadership.start();
    scene.endTerm(gone);
    await scene.clock.advance(60_000);
    expect(scene.failures).to.deep.equal([gone]);
  });

  it("fails to start on a full disk", async () => {
    const scene = new Scene();
    scene.refusal = FULL;
    expect(await rejection(scene.leadership.start())).to.equal(FULL);
  });
});
