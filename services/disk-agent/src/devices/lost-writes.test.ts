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
});
