import { rejection } from "@diskmesh/domain/testing";
import { LostWrites } from "./lost-writes.js";

describe("lost writes of a device", () => {
  it("a sync of an older session that fails late -> the newer one, which has written, is told too", async () => {
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
