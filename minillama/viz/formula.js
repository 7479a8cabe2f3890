// Formula: marks as plain data, written as SVG. The twin of marks.py; a browser test holds both equal.
const draw = {
  fixed(value, digits) {
    const text = value.toFixed(digits);
    return (Number(text) === 0 ? text.replace("-", "") : text).replace("-", "−");
  },
  line: (x1, y1, x2, y2, stroke = "ink", style = {}) => ({ kind: "line", x1, y1, x2, y2, stroke, ...style }),
  polyline: (points, stroke = "ink", style = {}) => ({ kind: "polyline", points, stroke, fill: "none", ...style }),
  circle: (cx, cy, r, fill = "ink", style = {}) => ({ kind: "circle", cx, cy, r, fill, ...style }),
  rect: (x, y, width, height, fill = "ink", style = {}) => ({ kind: "rect", x, y, width, height, fill, ...style }),
  text: (x, y, content, fill = "ink", style = {}) => ({ kind: "text", x, y, content, fill, ...style }),
  title: (content) => ({ kind: "title", content }),
};
function toSvg(marks, palette) {
  const escape = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/"/g, "&quot;");
  const number = (value) => String(Math.round(value * 100) / 100);
  const attribute = ([key, value]) => {
    if (key === "points") value = value.map(([x, y]) => `${number(x)},${number(y)}`).join(" ");
    else if (typeof value === "number") value = number(value);
    else if (key === "fill" || key === "stroke") value = palette[value] ?? value;
    return ` ${key}="${escape(value)}"`;
  };
  return marks.filter(({ kind }) => kind !== "title").map(({ kind, content = "", ...attributes }) =>
    `<${kind}${Object.entries(attributes).map(attribute).join("")}>${escape(content)}</${kind}>`).join("");
}
function formula(root, spec) {
  root.marks = (values) => marks(Object.fromEntries(spec.controls.map(({ key }, i) => [key, values[i]])), draw);
  return (at, values) => {
    const picture = root.marks(values);
    return [toSvg(picture, spec.palette), picture.find(({ kind }) => kind === "title").content];
  };
}
