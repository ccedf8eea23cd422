return (found())
