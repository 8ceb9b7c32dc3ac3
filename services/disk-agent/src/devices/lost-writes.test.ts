import { rejection } from "@diskmesh/domain/testing";
import { LostWrites } from "./lost-writes.js";

describe("lost writes of a device", () => {
  it("a late failed sync of an older session also fails the newer session that has written", async () => {
    const lost = new LostWrites();
    lost.noteWrite(1);
    const failed = new Error("EIO");
    const late = lost.sync(1, async () => {
      lost.noteWrite(2);
      lost.noteLoss();
      throw failed;
    });
    await rejection(late, Error, "EIO");
    await rejection(
      lost.sync(2, async () => {}),
      Error,
      "may have been lost",
    );
    await lost.sync(3, async () => {});
  });

  it("a failed sync fails every session that wrote since the last good sync, and no other", async () => {
    const lost = new LostWrites();
    const good = async () => {};
    lost.noteWrite(1)();
    const inFlight = lost.noteWrite(2);
    lost.noteWrite(3)();
    await lost.sync(3, async () => lost.noteWrite(4)());
    inFlight();
    lost.noteWrite(5)();
    lost.noteLoss();
    for (const covered of [1, 3]) await lost.sync(covered, good);
    for (const wrote of [2, 4, 5, 2]) await rejection(lost.sync(wrote, good), Error, "may have been lost");
  });
});
