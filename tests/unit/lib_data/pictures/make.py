"""Makes the files of this folder, and what Pillow decodes them to: NAME.HxW.MODE has the bytes of a
[channels, height, width] array. Run it with Pillow 13 and webdataset 1.0 to make them anew."""
import io

import numpy
import webdataset
from PIL import Image

rows, columns = numpy.mgrid[0:21, 0:30]
colours = numpy.stack([rows * 12, columns * 8, (rows * columns) % 256], -1).astype(numpy.uint8)
rgb = Image.fromarray(colours)
grey16 = Image.fromarray((rows * columns * 100).astype(numpy.uint16))

pictures = {
    "rgb.png": (rgb, {}),
    "grey.png": (rgb.convert("L"), {}),
    "alpha.png": (Image.fromarray(numpy.dstack([colours, rows * 9]).astype(numpy.uint8)), {}),
    "palette.png": (rgb.quantize(16), {"transparency": 3}),
    "two.png": (rgb.convert("1"), {}),
    "rgb.jpg": (rgb, {"quality": 90}),
    "progressive.jpg": (rgb, {"progressive": True}),
    "grey.jpg": (rgb.convert("L"), {}),
    "cmyk.jpg": (rgb.convert("CMYK"), {"quality": 95}),
}
for name, (picture, options) in pictures.items():
    picture.save(name, **options)
    for height, width, mode in [(21, 30, "RGB"), (8, 13, "RGB"), (40, 33, "RGB"), (8, 13, "L")]:
        if (height, mode) != (21, "RGB") and name not in ("rgb.png", "alpha.png"):
            continue
        decoded = Image.open(name).convert(mode).resize((width, height), Image.Resampling.BILINEAR)
        array = numpy.asarray(decoded)
        array = array[None] if mode == "L" else array.transpose(2, 0, 1)
        with open(f"{name}.{height}x{width}.{mode}", "wb") as out:
            out.write(numpy.ascontiguousarray(array).tobytes())
grey16.save("grey16.png")

with webdataset.TarWriter("samples.tar.gz") as writer:
    for number in range(5):
        jpeg = io.BytesIO()
        rgb.crop((0, 0, 8, 8)).save(jpeg, "JPEG")
        writer.write({"__key__": f"part/{number:04}", "jpg": jpeg.getvalue(), "cls": number,
                      "json": {"number": number}, "note.txt": f"row {number} ä"})
