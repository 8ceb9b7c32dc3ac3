import { expect } from "chai";
import { Turns } from "./turns.js";

const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

describe("turns", () => {
  it("more than may begin in one turn -> the others in the turns after, in order, and the next ones at once again", async () => {
    const turns = new Turns(2, setImmediate);
    const begun: number[] = [];
    const all = [1, 2, 3, 4, 5].map((number) => turns.next().then(() => begun.push(number)));
    await Promise.resolve();
    await Promise.resolve();
    expect(begun).to.deep.equal([1, 2]);
    await turn();
    expect(begun).to.deep.equal([1, 2, 3, 4]);
    await turn();
    expect(begun).to.deep.equal([1, 2, 3, 4, 5]);
    await Promise.all(all);
    await turn();
    await turn();
    let later = false;
    void turns.next().then(() => {
      later = true;
    });
    await Promise.resolve();
    await Promise.resolve();
    expect(later).to.equal(true);
  });
});
