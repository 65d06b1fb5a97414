import assert from "node:assert/strict";
import test from "node:test";
import {Generator} from "../src/random.js";

test("bits are those of the Mersenne Twister", () => {
  const generator = new Generator(5489); // for this seed the standard of C++ names the 10,000th number
  for (let i = 1; i < 10000; i++) generator.bits();
  assert.equal(generator.bits(), 4123659995);
});

test("numbers are those of PyTorch after manual_seed(7): rand(3), randperm(8), uniform_(-0.3, 0.7)", () => {
  const generator = new Generator(7);
  assert.deepEqual([...generator.rand(3)], [0.5349225401878357, 0.19880318641662598, 0.6592116951942444]);
  assert.deepEqual([...generator.permutation(8)], [6, 2, 5, 1, 7, 0, 4, 3]);
  assert.deepEqual([...generator.uniform(2, -0.3, 0.7)], [0.5549431443214417, 0.2509351968765259]);
});

test("a permutation has each index once, and numbers stay within their range", () => {
  const generator = new Generator(1), order = generator.permutation(500);
  const drawn = generator.uniform(20000, -2, 6).sort();
  assert.deepEqual(order.toSorted(), Int32Array.from({length: 500}, (_, i) => i));
  assert.ok(drawn[0] >= -2 && drawn[0] < -1.99 && drawn[19999] > 5.99 && drawn[19999] < 6);
});
