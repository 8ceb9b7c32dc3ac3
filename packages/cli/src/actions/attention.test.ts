import { attentionTo, type Troubled } from "@diskmesh/page/attention";
import { expect } from "chai";

describe("what needs attention", () => {
  /** "host:h1:a 5" is an object of a kind with its trouble and its start; a "!" in front stands for ended. */
  const troubledOf = (text: string): Troubled[] =>
    text.split(", ").map((each) => {
      const [, ended, kind, name, trouble, since] = /^(!?)(\w+):(\w+):(.*) (\d+)$/.exec(each) as unknown as string[];
      return { kind, name, trouble, sinceMs: Number(since), hasEnded: ended === "!" } as Troubled;
    });
  const listed = (text: string) =>
    attentionTo((kind) => troubledOf(text).filter((each) => each.kind === kind)).map(
      ({ kind, names, trouble, sinceMs }) => `${kind}:${names.join("+")}:${trouble} ${sinceMs}`,
    );

  it("lists what others depend on first, and failed tasks last", () =>
    expect(listed("!task:1:a 1, disk:d:a 1, host:h:a 1, task:2:a 1, source:s:a 1")).to.deep.equal([
      ...["source:s:a 1", "host:h:a 1", "task:2:a 1", "disk:d:a 1", "task:1:a 1"],
    ]));

  it("merges four objects of a kind with the same trouble into one entry, with the oldest start", () => {
    const three = "host:h1:h1 is silent 9, host:h2:h2 is silent 5, host:h3:h3 is silent 7";
    expect(listed(three)).to.have.length(3);
    expect(listed(`${three}, host:h4:h4 is silent 8, host:h5:h5 is dead 8`)).to.deep.equal([
      "host:h1+h2+h3+h4:h1 is silent 5",
      "host:h5:h5 is dead 8",
    ]);
  });
});
