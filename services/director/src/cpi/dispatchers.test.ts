import { type Logger, silentLogger, UnavailableError } from "@diskmesh/domain";
import { ManualClock } from "@diskmesh/domain/testing";
import { Readiness } from "@diskmesh/service";
import { expect } from "chai";
import { type Dispatcher, Dispatchers } from "./dispatchers.js";

/** Creates fake dispatchers. The test sets the health of each: SERVING, another status, or an error. */
function dispatchersOf(addresses: readonly string[]) {
  const health = new Map<string, string | Error>(addresses.map((address) => [address, "SERVING"]));
  const alerts: string[] = [];
  const done: string[] = [];
  const clock = new ManualClock();
  const told: string[] = [];
  const warn = (fields: object, message: string) => void ("alert" in fields && told.push(message));
  const info = (fields: object) => void ("alertEnded" in fields && told.push("ended"));
  const log: Logger = { ...silentLogger, warn, info };
  const readiness = new Readiness({ needs: ["dispatcher"], log });
  readiness.setServing(true);
  const all = addresses.map((address) => ({
    address,
    client: {},
    health: {
      list: async () => {
        const status = health.get(address);
        if (status instanceof Error) throw status;
        const warned = alerts.map((name) => [`alert.${name}`, { status: "NOT_SERVING" }]);
        return { statuses: { "": { status }, ...Object.fromEntries(warned) } };
      },
    },
  })) as unknown as Dispatcher[];
  const dispatchers = new Dispatchers({ dispatchers: all, readiness, clock, random: () => 0.5, log });
  dispatchers.start({
    fence: async ({ address }) => void done.push(`fence ${address}`),
    obeys: ({ address }) => void done.push(`${address} obeys`),
    settle: async () => {},
  });
  const looked = async () => {
    for (let turn = 0; turn < 30; turn++) await clock.advance(100);
  };
  const obeying = () => dispatchers.obeying.map(({ address }) => address);
  return { dispatchers, health, alerts, told, done, readiness, looked, obeying };
}

const gone = new UnavailableError("h2:7020 is away");

describe("the dispatchers of a director", () => {
  it("all dispatchers answer -> calls go to the first, and after a failure there to another", async () => {
    const { dispatchers, looked, obeying, done, readiness } = dispatchersOf(["h1:7020", "h2:7020"]);
    expect(() => dispatchers.choose()).to.throw(
      UnavailableError,
      "h1:7020: the dispatcher has not accepted this director yet; h2:7020: the dispatcher",
    );
    await looked();
    expect(obeying()).to.deep.equal(["h1:7020", "h2:7020"]);
    expect(done).to.have.members(["fence h1:7020", "h1:7020 obeys", "fence h2:7020", "h2:7020 obeys"]);
    expect(dispatchers.choose().address).to.equal("h1:7020");
    expect(dispatchers.choose(dispatchers.choose()).address).to.equal("h2:7020");
    expect(readiness.report().ready).to.equal(true);
    dispatchers.close();
  });

  it("a dispatcher that was unreachable -> fenced again before it is used", async () => {
    const { health, looked, obeying, done, readiness, dispatchers } = dispatchersOf(["h1:7020", "h2:7020"]);
    await looked();
    health.set("h1:7020", "NOT_SERVING");
    await looked();
    expect(obeying()).to.deep.equal(["h2:7020"]);
    expect(readiness.report().ready).to.equal(true);
    done.length = 0;
    health.set("h1:7020", "SERVING");
    await looked();
    expect(obeying()).to.deep.equal(["h1:7020", "h2:7020"]);
    expect(done).to.deep.equal(["fence h1:7020", "h1:7020 obeys"]);
    dispatchers.close();
  });

  it("no dispatcher answers -> the director is not ready, and reports the reason for each", async () => {
    const { health, looked, dispatchers, readiness } = dispatchersOf(["h1:7020", "h2:7020"]);
    await looked();
    health.set("h1:7020", "NOT_SERVING");
    health.set("h2:7020", gone);
    await looked();
    expect(readiness.report()).to.include({ ready: false });
    expect(readiness.report().why).to.equal(
      "dispatcher: h1:7020: the dispatcher reports that it does not serve; h2:7020 is away",
    );
    expect(() => dispatchers.choose()).to.throw(
      UnavailableError,
      "no dispatcher is usable: h1:7020: the dispatcher reports",
    );
    dispatchers.close();
  });

  it("a dispatcher that warns -> an alert of the director until the warning ends", async () => {
    const { alerts, told, looked, dispatchers, readiness } = dispatchersOf(["h1:7020"]);
    alerts.push("abrupt_ends");
    await looked();
    expect(told).to.deep.equal([
      "the cpi-dispatcher at h1:7020 warns of abrupt_ends (it was started several times within minutes after it had been killed or had crashed)",
    ]);
    expect(readiness.report().ready).to.equal(true);
    alerts.length = 0;
    await looked();
    expect(told.slice(1)).to.deep.equal(["ended"]);
    alerts.push("memory");
    await looked();
    dispatchers.close();
    expect(told.slice(2)).to.deep.equal([
      "the cpi-dispatcher at h1:7020 warns of memory (its memory is nearly used up, and the kernel kills it at the limit)",
      "ended",
    ]);
  });

  it("closed -> no dispatcher is checked any more", async () => {
    const { health, looked, dispatchers, done, readiness } = dispatchersOf(["h1:7020"]);
    await looked();
    dispatchers.close();
    health.set("h1:7020", gone);
    done.length = 0;
    await looked();
    expect(done).to.deep.equal([]);
    expect(readiness.report().needs.get("dispatcher")).to.include({ met: undefined });
  });
});
