import { rejection } from "@diskmesh/domain/testing";
import { expect } from "chai";
import { Verbs } from "./verbs.js";

const SHORT_MS = 300;
const LONG_MS = 60_000;

function verb(script: string, ...args: string[]) {
  return { what: "the change", script, args };
}

describe("changes of the kernel's NVMe/TCP", () => {
  it("return their output, and fail with what they have said", async () => {
    const verbs = new Verbs(LONG_MS);
    expect(await verbs.run("one", verb('echo "$1"', "a b"))).to.equal("a b\n");
    const failed = await rejection(verbs.run("one", verb("echo why >&2; exit 3")));
    expect(failed.message).to.equal("the change failed: why");
    const stopped = await rejection(verbs.run("one", verb("false; echo late")));
    expect(stopped.message).to.match(/^the change failed: /);
    const unset = await rejection(verbs.run("one", verb('echo "$1"')));
    expect(unset.message).to.match(/^the change failed: .*1: parameter not set/);
  });

  it("of one subject follow each other", async () => {
    const verbs = new Verbs(LONG_MS);
    const order: string[] = [];
    const note = (what: string) => () => void order.push(what);
    const first = verbs.run("one", verb("read -r line < /dev/null || true"), note("first")).then(note("first ended"));
    await Promise.all([first, verbs.run("one", verb("true"), note("second"))]);
    expect(order).to.deep.equal(["first", "first ended", "second"]);
  });

  it("that hang hold up their subject alone, until they have ended", async () => {
    const verbs = new Verbs(SHORT_MS);
    // The process of the shell dies, and the one that it waits for does not, as one that hangs in the kernel.
    const hung = verbs.run("one", verb("sleep 2; true"));
    const next = verbs.run("one", verb("true"));
    expect((await rejection(hung)).message).to.equal(
      `the change failed: it did not end within ${SHORT_MS} ms, because the kernel does not answer`,
    );
    expect((await rejection(next)).message).to.match(/because a former change has not ended$/);
    expect(await new Verbs(LONG_MS).run("other", verb("echo done"))).to.equal("done\n");
  });

  it("that are no longer due are not begun", async () => {
    const verbs = new Verbs(LONG_MS);
    const refused = verbs.run("one", verb("echo done"), () => {
      throw new Error("not due");
    });
    expect((await rejection(refused, Error)).message).to.equal("not due");
    expect(await verbs.run("one", verb("echo done"))).to.equal("done\n");
  });
});
