import { expect } from "chai";
import { seal } from "./seal.js";
import { encodeSlot, encodeSlots, fitsSlot, latestText, slotBytesFor, slotOffset } from "./slots.js";

const LINE_BYTES = 512;
const textOf = (name: string) => seal(`{"name":"${name}","filler":"${"x".repeat(1_200)}"}\n`);
const slotBytes = slotBytesFor(textOf("a").length);

/** Returns a file after these writes. Of the last write, only the lines that `linesOfLast` selects reached the file. */
function fileAfter(names: readonly string[], linesOfLast: (line: number) => boolean = () => true): string {
  let file = encodeSlots(textOf("first"), slotBytes);
  for (const [index, name] of names.entries()) {
    const at = slotOffset(index + 3, slotBytes);
    const slot = encodeSlot(textOf(name), index + 3, slotBytes);
    const isLast = index === names.length - 1;
    for (let line = 0; line < slotBytes / LINE_BYTES; line++) {
      const [from, to] = [at + line * LINE_BYTES, at + (line + 1) * LINE_BYTES];
      if (!isLast || linesOfLast(line)) file = file.slice(0, from) + slot.slice(from - at, to - at) + file.slice(to);
    }
  }
  return file;
}
const nameIn = (file: string): string => JSON.parse(latestText(file)).name as string;

describe("the slots of a cache file", () => {
  for (const names of [[], ["a"], ["a", "b"], ["a", "b", "c"]])
    it(`written ${names.length} times return the last contents`, () => {
      expect(nameIn(fileAfter(names))).to.equal(names.at(-1) ?? "first");
    });

  it("interrupted after any line return the former contents, never a mixture", () => {
    for (let cut = 0; cut < slotBytes / LINE_BYTES; cut++) {
      expect(nameIn(fileAfter(["a", "b", "c"], (line) => line < cut)), `the first ${cut}`).to.equal("b");
      expect(nameIn(fileAfter(["a", "b", "c"], (line) => line !== cut)), `all but ${cut}`).to.equal("b");
    }
  });

  it("with any changed character are refused, and not taken for an interrupted write", () => {
    const file = fileAfter(["a", "b"]);
    for (let at = 0; at < file.length; at += 3) {
      const changed = `${file.slice(0, at)}${file[at] === "1" ? "2" : "1"}${file.slice(at + 1)}`;
      expect(() => latestText(changed), `character ${at}`).to.throw(/checksum/);
    }
  });

  for (const [what, spoil] of [
    ["cut short", (file: string) => file.slice(0, -1)],
    ["half", (file: string) => file.slice(0, slotBytes)],
    ["with its slots exchanged", (file: string) => file.slice(slotBytes) + file.slice(0, slotBytes)],
    ["of a write twice", (file: string) => file.slice(0, slotBytes) + file.slice(0, slotBytes)],
  ] as const)
    it(`with ${what} are refused`, () => {
      expect(() => latestText(spoil(fileAfter(["a", "b"])))).to.throw(/slot|checksum/);
    });

  it("accept a text without slots", () => {
    expect(latestText(textOf("a"))).to.equal(textOf("a"));
  });

  it("have room to grow, and reject a longer text", () => {
    const { length } = textOf("a");
    expect(fitsSlot(length * 1.2, slotBytes)).to.equal(true);
    expect(fitsSlot(slotBytes, slotBytes)).to.equal(false);
    expect(slotBytes % 4_096).to.equal(0);
  });
});
